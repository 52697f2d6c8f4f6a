/* kept_plans.h - plans that policy made before, for the very same request */
#ifndef PYLAYER_KEPT_PLANS_H
#define PYLAYER_KEPT_PLANS_H

#include "base.h"

/* Before policy reads the policy file. */
void kept_plans_start(void);
/* Fills in under which names a plan for this request is kept; none if memory is short. */
void kept_plans_describe(PylayerMessage *message);
/* Returns false if there is no plan under either name that is whole and that nobody else could have written. */
bool kept_plans_find(const PylayerMessage *message, PylayerPlan *plan);

#endif
