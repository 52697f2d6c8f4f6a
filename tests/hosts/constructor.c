/* constructor.c - a library whose constructor and destructor run steps of the host, so inside of dlopen and dlclose. */

void steps_inside(void);

__attribute__((constructor)) static void begin(void)
{
    steps_inside();
}

__attribute__((destructor)) static void end(void)
{
    steps_inside();
}
