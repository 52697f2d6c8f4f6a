/* shim/layer/process/shared_map.c by itself: what is found after a change that waited in vain for a thread
 * that reads. */
#define _GNU_SOURCE
#include "../../shim/layer/process/number_map.c"
#include "../../shim/layer/process/patience.c"
#include "../../shim/layer/process/shared_map.c"
#include "../../shim/layer/process/spread_lock.c"

#include <stdio.h>

void log_line(enum PylayerLogLevel level, const char *format, ...)
{
    (void)level;
    (void)format;
}

int main(int count, char **arguments)
{
    (void)count;
    static SharedMap map;
    shared_map_open(&map);
    shared_map_put(&map, 1, 10, 2);
    spread_lock_read(&map.lock, false);
    if (arguments[1][0] == 'r')
        shared_map_remove(&map, 1);
    else
        shared_map_put(&map, 1, 20, 2);
    spread_unlock_read(&map.lock, false);
    shared_map_put(&map, 2, 30, 2);
    printf("%u %u\n", (unsigned)shared_map_find(&map, 1), (unsigned)shared_map_find(&map, 2));
    return 0;
}
