/* first_instance - prints how many nanoseconds the process's first vkCreateInstance took, by the clock and of its thread's
 * own time on a processor, which other processes do not lengthen. */
#include <stdio.h>
#include <time.h>
#include <vulkan/vulkan.h>

static long long now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

int main(void)
{
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VkInstance instance;
    long long start = now(CLOCK_MONOTONIC), start_own = now(CLOCK_THREAD_CPUTIME_ID);
    if (vkCreateInstance(&info, NULL, &instance))
        return 1;
    long long own = now(CLOCK_THREAD_CPUTIME_ID) - start_own;
    printf("%lld %lld\n", now(CLOCK_MONOTONIC) - start, own);
    vkDestroyInstance(instance, NULL);
    return 0;
}
