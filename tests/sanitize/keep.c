/*
 * keep.c - for LD_PRELOAD with ThreadSanitizer: libraries stay. Its atexit() forgets which library registered a handler,
 * so the handlers of a driver that the loader has closed would be called at exit() where its code no longer is.
 */
int dlclose(void *library)
{
    (void)library;
    return 0;
}
