/* pipeline_cache.h - the application's own VkPipelineCache objects */
#ifndef PYLAYER_PIPELINE_CACHE_H
#define PYLAYER_PIPELINE_CACHE_H

#include "caches/merging.h"

/* The application's VkPipelineCache, beside the driver's handle that it keeps using. */
typedef struct AppCache {
    _Atomic(VkPipelineCache) handle; /* VK_NULL_HANDLE: free, may be reused */
    struct AppCache *next;           /* same bucket; never unlinked before the device goes */
    uint64_t serial;                 /* PylayerCacheInfo::cache */
    uint32_t slot;                   /* PylayerCacheInfo::slot */
    CacheUse use;
    uint64_t data_id;        /* first bytes of that data's digest, 0: none, or not known */
    bool from_data;          /* created with initial data: not known to be this driver's own work */
    bool app_synchronized;   /* EXTERNALLY_SYNCHRONIZED: used within the application's own calls only */
    atomic_uint seeded;      /* Device::cells_generation when last seeded, 0: never */
    atomic_bool holds_plain; /* something was compiled into it that is in no cell */
} AppCache;

#define APP_CACHE_BUCKETS 64

/* Digests of application cache data of which policy has a copy, the oldest replaced first: an application that
 * writes its cache every few seconds mostly writes the same. */
#define KEPT_DIGESTS 16
typedef struct KeptDigests {
    pthread_mutex_t mutex;
    uint8_t digests[KEPT_DIGESTS][PYLAYER_DIGEST_BYTES];
    unsigned count, next;
} KeptDigests;

VKAPI_ATTR VkResult VKAPI_CALL layer_CreatePipelineCache(VkDevice, const VkPipelineCacheCreateInfo *,
                                                         const VkAllocationCallbacks *, VkPipelineCache *);
VKAPI_ATTR void VKAPI_CALL layer_DestroyPipelineCache(VkDevice, VkPipelineCache, const VkAllocationCallbacks *);
VKAPI_ATTR VkResult VKAPI_CALL layer_GetPipelineCacheData(VkDevice, VkPipelineCache, size_t *, void *);
VKAPI_ATTR VkResult VKAPI_CALL layer_MergePipelineCaches(VkDevice, VkPipelineCache, uint32_t, const VkPipelineCache *);
AppCache *app_cache_find(Device *device, VkPipelineCache handle);
void app_caches_free(Device *device);
/* Takes over what is in the application's caches now and in no cell, for a snapshot before they are destroyed. */
void app_caches_absorb(Device *device);

#endif
