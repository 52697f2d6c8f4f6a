/*
 * shim/layer/store/owner.c by itself: prints this process as it stands in file headers, then the state of each process
 * that an argument names so, in hexadecimal.
 */
#include "../../shim/layer/process/digest.c"
#include "../../shim/layer/process/process_stat.c"
#include "../../shim/layer/store/owner.c"

int main(int argc, char **argv)
{
    static const char *const names[] = {"alive", "dead", "elsewhere"};
    Owner owner;
    unsigned char bytes[sizeof owner];
    owner_write(&owner);
    memcpy(bytes, &owner, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        printf("%02x", bytes[i]);
    printf("\n");
    for (int argument = 1; argument < argc; argument++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            const char digits[] = {argv[argument][2 * i], argv[argument][2 * i + 1], '\0'};
            bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
        }
        memcpy(&owner, bytes, sizeof owner);
        printf("%s\n", names[owner_state(&owner)]);
    }
    return 0;
}
