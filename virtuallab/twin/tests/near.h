/* SPDX-License-Identifier: GPL-3.0-or-later */
/* For what is right within a relative error. */
#ifndef JOULERIG_NEAR_H
#define JOULERIG_NEAR_H

#include "check.h"

#include <math.h>

static inline void check_near(const char *what, double found, double expected, double relative)
{
	if (!(fabs(found - expected) <= relative * fabs(expected))) {
		printf("%s: %.17g, expected %.17g within %g\n", what, found, expected, relative);
		failures++;
	}
}

#endif
