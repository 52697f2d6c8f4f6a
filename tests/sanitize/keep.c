/*
 * keep.c - for LD_PRELOAD: libraries stay. ThreadSanitizer's atexit() forgets which library registered a handler, so the
 * handlers of a driver that the loader has closed would be called at exit() where its code no longer is. LeakSanitizer
 * names what lies at an address when the process ends, which for a driver that was closed is another library.
 */
int dlclose(void *library)
{
    (void)library;
    return 0;
}
