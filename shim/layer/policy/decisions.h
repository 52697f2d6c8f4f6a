/* decisions.h - finds what policy decided earlier for the very same request */
#ifndef PYLAYER_DECISIONS_H
#define PYLAYER_DECISIONS_H

#include "base.h"

/* Fills in the key of this request's decision. It stays zero if policy must be asked each time. */
void decision_describe(PylayerMessage *message);
/* Returns false, with zeros in *decision, unless there is a decision that is whole and valid now, and that nobody else
 * could have written. unrecorded: whether its plan is to record state, and an earlier run left something that has none. */
bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded);

#endif
