/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "number.h"

#include <stdint.h>
#include <string.h>

#define SIGNIFICANT_DIGITS 18
#define LARGEST_EXPONENT 30
/* Larger than any that could matter, so that one is not read into overflow. */
#define EXPONENT_LIMIT 9999

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Every step rounds once, so an exponent of up to 48 costs three roundings. */
static double scale(double value, int exponent)
{
	/* The powers of ten that double precision holds exactly. */
	static const double powers[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,	1e6,  1e7,
					 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
					 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

	for (; exponent > 22; exponent -= 22)
		value *= powers[22];
	for (; exponent < -22; exponent += 22)
		value /= powers[22];
	return exponent < 0 ? value / powers[-exponent] : value * powers[exponent];
}

bool number_parse(const char **text, float *value)
{
	const char *at = *text;
	bool negative = *at == '-', has_digits = false, behind_point = false;
	uint64_t mantissa = 0;
	int digits = 0, exponent = 0;
	double result;

	if (*at == '-' || *at == '+')
		at++;
	for (; is_digit(*at) || (*at == '.' && !behind_point); at++) {
		if (*at == '.') {
			behind_point = true;
			continue;
		}
		has_digits = true;
		if (digits < SIGNIFICANT_DIGITS) {
			mantissa = mantissa * 10 + (uint64_t)(*at - '0');
			digits += mantissa != 0;
			exponent -= behind_point;
		} else {
			exponent += !behind_point;
		}
	}
	if (!has_digits)
		return false;
	if (*at == 'E' || *at == 'e') {
		int sign = 1, written = 0;

		at++;
		if (*at == '-' || *at == '+')
			sign = *at++ == '-' ? -1 : 1;
		if (!is_digit(*at))
			return false;
		for (; is_digit(*at); at++)
			if (written < EXPONENT_LIMIT)
				written = written * 10 + (*at - '0');
		exponent += sign * written;
	}
	if (mantissa == 0) {
		*value = 0;
		*text = at;
		return true;
	}
	if (digits + exponent > LARGEST_EXPONENT + 1 || digits + exponent < -LARGEST_EXPONENT)
		return false;
	result = scale((double)mantissa, exponent);
	if (result < 1e-30 || result > 1e30)
		return false;
	*value = (float)(negative ? -result : result);
	*text = at;
	return true;
}

char *number_format(float value, char text[NUMBER_SIZE])
{
	double rest = value < 0 ? -(double)value : (double)value;
	char *at = text;
	uint32_t mantissa;
	int exponent = 0;

	if (value != value)
		return memcpy(text, "9.91E+37", 9);
	if (rest > 3.5e38)
		return value < 0 ? memcpy(text, "-9.9E+37", 9) : memcpy(text, "9.9E+37", 8);
	while (rest >= 10) {
		rest /= 10;
		exponent++;
	}
	while (rest > 0 && rest < 1) {
		rest *= 10;
		exponent--;
	}
	mantissa = (uint32_t)(rest * 1e8 + 0.5);
	if (mantissa >= 1000000000) {
		mantissa /= 10;
		exponent++;
	}
	if (value < 0)
		*at++ = '-';
	for (uint32_t place = 100000000; place; place /= 10) {
		*at++ = (char)('0' + mantissa / place % 10);
		if (place == 100000000)
			*at++ = '.';
	}
	*at++ = 'E';
	*at++ = exponent < 0 ? '-' : '+';
	if (exponent < 0)
		exponent = -exponent;
	*at++ = (char)('0' + exponent / 10);
	*at++ = (char)('0' + exponent % 10);
	*at = '\0';
	return text;
}
