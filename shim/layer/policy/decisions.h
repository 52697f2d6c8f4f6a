/* decisions.h - finds what policy decided earlier for the very same request */
#ifndef PYLAYER_DECISIONS_H
#define PYLAYER_DECISIONS_H

#include "base.h"

/* Fills in the key of this request's decision. It stays zero if policy must be asked each time. */
void decision_describe(PylayerMessage *message);
/* Returns false, with zeros in *decision, unless a decision is stored that is undamaged, valid now, and in a directory
 * that only this user can write to. *unrecorded: its plan records state, which an earlier run left unrecorded. */
bool decision_find(const PylayerMessage *message, PylayerDecision *decision, bool *unrecorded);

#endif
