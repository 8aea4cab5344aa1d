/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Decimal numbers as SCPI writes them (IEEE 488.2, NRf in, NR3 out), for a core
 * that has no C library.
 */
#ifndef JOULERIG_NUMBER_H
#define JOULERIG_NUMBER_H

#include <stdbool.h>

#define NUMBER_SIZE 16 /* "-1.23456789E+01" and its end */

/* Reads "12", "-0.5", ".5", "1.2E-3" at *text and leaves *text behind it. Allowed
 * are 0 and magnitudes from 1E-30 to 1E30. Digits after the 18th significant
 * one count as 0. The result is the nearest single-precision number, unless the
 * decimal lies within 1E-15 of itself of the middle between two: then either.
 * False, with *text as it was, for anything else. */
bool number_parse(const char **text, float *value);

/* Nine significant digits, which read back as the same number; SCPI-99's 9.91E+37
 * and 9.9E+37 for what is not a number and for infinity. Returns text. */
char *number_format(float value, char text[NUMBER_SIZE]);

#endif
