/* kept_plans.h - reuses a plan that policy made earlier for the very same request */
#ifndef PYLAYER_KEPT_PLANS_H
#define PYLAYER_KEPT_PLANS_H

#include "base.h"

/* Fills in the names under which a plan for this request is kept. They stay empty if memory is short. */
void kept_plans_describe(PylayerMessage *message);
/* Returns false if neither name has a plan that is undamaged and that nobody else could have written. unrecorded: whether
 * the plan is to record state, and an earlier run left something that has none. */
bool kept_plans_find(const PylayerMessage *message, PylayerKept *kept, bool *unrecorded);

#endif
