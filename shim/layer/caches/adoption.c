/*
 * adoption.c - limits the time that a device spends on adoptions.
 *
 * Adopting a pipeline creates it a second time and reads what that put into a cell. On an H200 that took 1,390 us for a
 * pipeline that the driver's disk cache returned in 106 us, so a first run took 13 times as long as the driver alone.
 * Each pipeline that the driver's cache returns earns a part of its own time. What is not adopted in this run is
 * adopted, without a limit, in the next one that creates it.
 */
#include "caches/adoption.h"

/* A first run over a warm driver cache may take 1.25 times as long. */
#define EARNED_PART 8
/* The first adoption of a device needs no earnings. */
#define FIRST_NS 1000000

bool adoption_begin(AdoptionBudget *budget, uint64_t driver_ns, Adoption *adoption)
{
    uint64_t earned = driver_ns / EARNED_PART;
    uint64_t last = atomic_load_explicit(&budget->last_ns, memory_order_relaxed);
    uint64_t expected = last ? last : FIRST_NS;
    earned += atomic_fetch_add_explicit(&budget->earned_ns, earned, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&budget->spent_ns, expected, memory_order_relaxed) + expected > FIRST_NS + earned) {
        atomic_fetch_sub_explicit(&budget->spent_ns, expected, memory_order_relaxed);
        return false;
    }
    *adoption = (Adoption){.start_ns = now_ns(), .expected_ns = expected};
    return true;
}

void adoption_end(AdoptionBudget *budget, const Adoption *adoption)
{
    uint64_t took = now_ns() - adoption->start_ns;
    atomic_store_explicit(&budget->last_ns, took, memory_order_relaxed);
    atomic_fetch_add_explicit(&budget->spent_ns, took - adoption->expected_ns, memory_order_relaxed);
}
