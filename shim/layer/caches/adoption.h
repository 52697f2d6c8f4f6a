/* adoption.h - how much time a device spends on keeping pipelines that the driver's own cache returned */
#ifndef PYLAYER_ADOPTION_H
#define PYLAYER_ADOPTION_H

#include "base.h"

/* Times are nanoseconds, summed over threads. */
typedef struct AdoptionBudget {
    atomic_ullong earned_ns;
    atomic_ullong spent_ns; /* includes what threads that adopt just now are expected to spend */
    atomic_ullong last_ns;  /* time that the last adoption took; 0: there was none yet */
} AdoptionBudget;

typedef struct Adoption {
    uint64_t start_ns, expected_ns;
} Adoption;

/* The driver's own cache returned a pipeline within driver_ns. Returns true if it may be adopted. Then call
 * adoption_end after it was. */
bool adoption_begin(AdoptionBudget *budget, uint64_t driver_ns, Adoption *adoption);
void adoption_end(AdoptionBudget *budget, const Adoption *adoption);

#endif
