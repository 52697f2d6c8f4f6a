/* commands.h - the functions that policy calls */
#ifndef PYLAYER_COMMANDS_H
#define PYLAYER_COMMANDS_H

#include "base.h"

extern const PylayerShim shim_commands;

#endif
