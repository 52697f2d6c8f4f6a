/*
 * binary_tables [seed]: shim/layer/binaries/binary_record.c, binary_index.c and binary_history.c by themselves, over a driver that
 * remembers what it gave out: prints one JSON object, and ends with 1 where something that the driver never made
 * reached it. Records are altered and cut, each in memory exactly as long as it says, for a build with
 * -fsanitize=address.
 */
#define _GNU_SOURCE
#include "../../shim/layer/binaries/binary_history.c"
#include "../../shim/layer/binaries/binary_index.c"
#include "../../shim/layer/binaries/binary_record.c"
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <stdio.h>

static struct {
    Driver driver;
    Run run;
    Crash crash;
    Binaries binaries;
} device = {.binaries = {.driver = &device.driver, .run = &device.run, .crash = &device.crash}};
static int failures;
#define GLOBAL_KEY 5

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    (void)level;
    (void)format;
}

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "binary_tables: %s\n", what);
    failures++;
}

/* ---- a driver ---------------------------------------------------------------------------------- */

typedef struct FakeBinary {
    uint64_t number;
    size_t size;
    uint8_t data[256];
} FakeBinary;

static atomic_int objects;

static VKAPI_ATTR VkResult VKAPI_CALL fake_create(VkDevice handle, const VkPipelineBinaryCreateInfoKHR *info,
                                                  const VkAllocationCallbacks *allocator,
                                                  VkPipelineBinaryHandlesInfoKHR *out)
{
    (void)handle, (void)allocator;
    for (uint32_t i = 0; i < info->pKeysAndDataInfo->binaryCount; i++) {
        const VkPipelineBinaryDataKHR *data = &info->pKeysAndDataInfo->pPipelineBinaryData[i];
        FakeBinary *binary = calloc(1, sizeof *binary);
        binary->size = data->dataSize;
        memcpy(&binary->number, data->pData, data->dataSize < 8 ? data->dataSize : 8);
        memcpy(binary->data, data->pData, data->dataSize < 256 ? data->dataSize : 256);
        atomic_fetch_add(&objects, 1);
        out->pPipelineBinaries[i] = (VkPipelineBinaryKHR)(uintptr_t)binary;
    }
    return VK_SUCCESS;
}

static VKAPI_ATTR void VKAPI_CALL fake_destroy(VkDevice handle, VkPipelineBinaryKHR binary,
                                               const VkAllocationCallbacks *allocator)
{
    (void)handle, (void)allocator;
    free((void *)(uintptr_t)binary);
    atomic_fetch_sub(&objects, 1);
}

static VKAPI_ATTR VkResult VKAPI_CALL fake_read(VkDevice handle, const VkPipelineBinaryDataInfoKHR *info,
                                                VkPipelineBinaryKeyKHR *key, size_t *size, void *data)
{
    (void)handle;
    const FakeBinary *binary = (const void *)(uintptr_t)info->pipelineBinary;
    key->keySize = 8;
    memcpy(key->key, &binary->number, 8);
    *size = binary->size;
    if (data)
        memcpy(data, binary->data, binary->size);
    return VK_SUCCESS;
}

static FakeBinary *fake_binary(uint64_t number)
{
    FakeBinary *binary = calloc(1, sizeof *binary);
    binary->number = number;
    binary->size = 8 + number % 200;
    for (size_t i = 8; i < binary->size; i++)
        binary->data[i] = (uint8_t)(number * 31 + i);
    memcpy(binary->data, &number, 8);
    atomic_fetch_add(&objects, 1);
    return binary;
}

static VkPipelineBinaryKeyKHR key_of(uint64_t number)
{
    VkPipelineBinaryKeyKHR key = {.sType = VK_STRUCTURE_TYPE_PIPELINE_BINARY_KEY_KHR, .keySize = 20};
    uint64_t mixed = digest64(&number, sizeof number, 7);
    memcpy(key.key, &mixed, sizeof mixed);
    memcpy(key.key + 8, &number, sizeof number);
    return key;
}

static BinaryRecord *record_of(uint64_t number, uint32_t binary_count, uint64_t *size)
{
    VkPipelineBinaryKHR handles[4] = {0};
    for (uint32_t i = 0; i < binary_count; i++)
        handles[i] = (VkPipelineBinaryKHR)(uintptr_t)fake_binary(number * 4 + i);
    VkPipelineBinaryKeyKHR key = key_of(number);
    BinaryRecord *record = binary_record_read(&device.driver, &key, binary_count, handles, size);
    for (uint32_t i = 0; i < binary_count; i++)
        fake_destroy(VK_NULL_HANDLE, handles[i], NULL);
    return record;
}

/* ---- the index: four threads load, add and look up the same pipelines --------------------------- */

#define THREADS 4
#define PIPELINES 6000u

static bool came_back(BinaryEntry *entry, uint64_t number)
{
    const VkPipelineBinaryKHR *handles = binary_entry_handles(&device.binaries, entry);
    bool same = entry->count == 1 + number % 3;
    for (uint32_t i = 0; same && i < entry->count; i++) {
        const FakeBinary *binary = (const void *)(uintptr_t)handles[i];
        same = binary->number == number * 4 + i &&
               binary->data[binary->size - 1] ==
                   (binary->size > 8 ? (uint8_t)(binary->number * 31 + binary->size - 1) : binary->data[7]);
    }
    return same;
}

static void *use_index(void *argument)
{
    uint64_t thread = (uint64_t)(uintptr_t)argument;
    bool good = true;
    for (uint64_t step = 0; step < PIPELINES; step++) {
        uint64_t number = (step * 7 + thread * 1500) % PIPELINES, size;
        VkPipelineBinaryKeyKHR key = key_of(number);
        BinaryEntry *entry = binary_index_find(&device.binaries, &key);
        if (!entry) {
            BinaryRecord *record = record_of(number, 1 + number % 3, &size);
            good &= record && binary_index_load(&device.binaries, record, size);
            free(record);
            entry = binary_index_find(&device.binaries, &key);
        }
        /* What is evicted may be gone for another thread that has just found it, or loaded it. */
        bool evicts = number % 97 == 0;
        good &= evicts || (entry && came_back(entry, number));
        if (entry && evicts)
            binary_entry_evict(&device.binaries, entry);
    }
    return good ? NULL : argument - 1;
}

/* Keys that are never put in, while others are: the slot where the search ends may be filled with another key's entry. */
static void *look_for_what_is_not_there(void *argument)
{
    bool good = true;
    for (uint64_t number = 1000 * PIPELINES; !atomic_load((atomic_bool *)argument); number++) {
        VkPipelineBinaryKeyKHR key = key_of(number);
        good &= binary_index_find(&device.binaries, &key) == NULL;
    }
    return good ? NULL : argument;
}

static void test_keys_that_are_not_there(void)
{
    pthread_t readers[THREADS];
    uint64_t size;
    for (unsigned round = 0; round < 20; round++) {
        atomic_bool over = false;
        for (unsigned i = 0; i < THREADS; i++)
            pthread_create(&readers[i], NULL, look_for_what_is_not_there, &over);
        for (uint64_t number = 0; number < PIPELINES; number++) {
            BinaryRecord *record = record_of(number, 1, &size);
            expect(record && binary_index_load(&device.binaries, record, size), "a record was not taken");
            free(record);
        }
        atomic_store(&over, true);
        for (unsigned i = 0; i < THREADS; i++) {
            void *bad;
            pthread_join(readers[i], &bad);
            expect(!bad, "a key that is not there was found, with another one's binaries");
        }
        binary_index_close(&device.binaries);
        device.binaries.index_bytes = 0;
        memset(device.run.own_counters, 0, sizeof device.run.own_counters);
    }
}

static void test_index(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use_index, (void *)(i + 1));
    for (unsigned i = 0; i < THREADS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        expect(!bad, "an entry of the index is not what was put in");
    }
    device.binaries.index_bytes = BINARIES_BYTES;
    uint64_t size;
    BinaryRecord *record = record_of(PIPELINES + 1, 1, &size);
    expect(!binary_index_load(&device.binaries, record, size), "the index went over its bound");
    expect(device.run.counters[thread_slot()].totals.binaries_unindexed == 1, "what has no room is not counted");
    device.binaries.index_bytes = 0;
    record->global_key = GLOBAL_KEY;
    expect(!binary_index_load(&device.binaries, record, size), "a record of another global key was taken");
    atomic_store(&device.binaries.global_key, GLOBAL_KEY);
    expect(binary_index_load(&device.binaries, record, size), "a record of this global key was not taken");
    atomic_store(&device.binaries.global_key, 0);
    free(record);
    binary_index_close(&device.binaries);
    expect(atomic_load(&objects) == 0, "VkPipelineBinaryKHR objects are left over");
}

/* ---- records ----------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t noise(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* Everything that a record which passes points to lies in it. */
static unsigned test_records(unsigned rounds)
{
    unsigned accepted = 0;
    for (unsigned i = 0; i < rounds; i++) {
        uint64_t size;
        BinaryRecord *record = record_of(noise() % 1000, noise() % 5, &size);
        expect(binary_record_check(record, size) != NULL, "a record is refused");
        uint64_t cut = noise() % 3 ? size : noise() % (size + 1);
        uint8_t *copy = malloc(cut ? cut : 1);
        memcpy(copy, record, cut);
        for (uint64_t changes = noise() % 4; cut && changes; changes--)
            copy[noise() % (noise() % 2 && cut > 96 ? 96 : cut)] = (uint8_t)noise();
        const BinaryRecord *checked = binary_record_check(copy, cut);
        if (checked) {
            accepted++;
            VkPipelineBinaryKHR *handles = checked->count > 0 ? binary_record_create(&device.driver, checked) : NULL;
            if (handles)
                binaries_destroy(&device.driver, checked->count, handles);
        }
        free(copy);
        free(record);
    }
    return accepted;
}

/* ---- history ----------------------------------------------------------------------------------- */

static PylayerAttested attested_of(const VkPipelineBinaryKeyKHR *key, const char *text, bool stale)
{
    PylayerAttested attested = {
        .key_size = key->keySize, .stale = stale, .size = strlen(text), .global_key = stale ? 0 : GLOBAL_KEY};
    memcpy(attested.key, key->key, sizeof attested.key);
    digest128(text, strlen(text), attested.digest);
    return attested;
}

static enum BinaryOutcome judge(const VkPipelineBinaryKeyKHR *key, const char *text)
{
    VkPipelineBinaryDataKHR data = {strlen(text), (void *)(uintptr_t)text};
    return binary_history_judge(&device.binaries, key, &data);
}

static void test_history(void)
{
    VkPipelineBinaryKeyKHR once = key_of(1), twice = key_of(2), old = key_of(3), other = key_of(4), never = key_of(5);
    shared_map_open(&device.binaries.history);
    atomic_store(&device.binaries.global_key, GLOBAL_KEY);
    PylayerAttested all[] = {attested_of(&once, "good bytes", false), attested_of(&twice, "one", false),
                             attested_of(&twice, "other", false), attested_of(&old, "of another driver", true),
                             attested_of(&other, "of another key", false)};
    all[4].global_key++;
    for (unsigned i = 0; i < 5; i++) {
        expect(binary_history_add(&device.binaries, &all[i]), "what is new is not taken");
        expect(!binary_history_add(&device.binaries, &all[i]), "what is known is taken twice");
    }
    expect(judge(&once, "good bytes") == BINARY_ATTESTED, "what was read is not attested");
    expect(judge(&once, "good bytez") == BINARY_ALTERED, "altered data is not known as such");
    expect(judge(&twice, "other") == BINARY_ATTESTED, "the second content under a key is not attested");
    expect(judge(&twice, "neither") == BINARY_ALTERED, "neither of two contents is not altered");
    expect(judge(&old, "of another driver") == BINARY_STALE, "another identity's is not stale");
    expect(judge(&other, "of another key") == BINARY_STALE, "another global key's is not stale");
    expect(judge(&never, "good bytes") == BINARY_UNKNOWN, "what was never read is known");
    shared_map_close(&device.binaries.history);
}

int main(int count, char **arguments)
{
    state = count > 1 ? strtoull(arguments[1], NULL, 10) | 1 : 88172645463325252ull;
    atomic_store(&device.run.counters, device.run.own_counters);
    device.driver.create_pipeline_binaries = fake_create;
    device.driver.destroy_pipeline_binary = fake_destroy;
    device.driver.get_pipeline_binary_data = fake_read;
    pthread_mutex_init(&device.binaries.index_mutex, NULL);
    unsigned accepted = test_records(100000);
    test_keys_that_are_not_there();
    test_index();
    test_history();
    printf("{\"altered_records_accepted\": %u, \"failures\": %d}\n", accepted, failures);
    return failures != 0;
}
