/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernel.h"

#include <math.h>

/* Sample by sample, from sample k on: what the vectors leave over, and all where there are none. */
static void add_rest(const float *volts, const float *amps, size_t k, size_t n, const struct energy_scale *scale, struct energy_sums *sums)
{
	for (; k < n; k++) {
		double v = volts[k] * scale->volts_gain + scale->volts_offset;
		double a = amps[k] * scale->amps_gain + scale->amps_offset;
		double w = v * a;

		sums->volts += v;
		sums->amps += a;
		sums->watts += w;
		sums->min = w < sums->min ? w : sums->min;
		sums->max = w > sums->max ? w : sums->max;
	}
}

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static double lanes(__m256d x)
{
	double lane[4];

	_mm256_storeu_pd(lane, x);
	return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* The product of two float32 is exact in a double; two accumulators each hide the time that an
 * addition takes. */
AVX2 static size_t add_vectors(const float *volts, const float *amps, size_t n, const struct energy_scale *scale, struct energy_sums *sums)
{
	const __m256d volts_gain = _mm256_set1_pd(scale->volts_gain), volts_offset = _mm256_set1_pd(scale->volts_offset);
	const __m256d amps_gain = _mm256_set1_pd(scale->amps_gain), amps_offset = _mm256_set1_pd(scale->amps_offset);
	__m256d volts0 = _mm256_setzero_pd(), amps0 = volts0, watts0 = volts0, volts1 = volts0, amps1 = volts0, watts1 = volts0;
	__m256d min = _mm256_set1_pd(INFINITY), max = _mm256_set1_pd(-INFINITY);
	size_t k = 0;

	for (; k + 8 <= n; k += 8) {
		__m256d v0 = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(volts + k)), volts_gain, volts_offset);
		__m256d v1 = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(volts + k + 4)), volts_gain, volts_offset);
		__m256d a0 = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(amps + k)), amps_gain, amps_offset);
		__m256d a1 = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm_loadu_ps(amps + k + 4)), amps_gain, amps_offset);
		__m256d w0 = _mm256_mul_pd(v0, a0), w1 = _mm256_mul_pd(v1, a1);

		volts0 = _mm256_add_pd(volts0, v0);
		volts1 = _mm256_add_pd(volts1, v1);
		amps0 = _mm256_add_pd(amps0, a0);
		amps1 = _mm256_add_pd(amps1, a1);
		watts0 = _mm256_add_pd(watts0, w0);
		watts1 = _mm256_add_pd(watts1, w1);
		min = _mm256_min_pd(min, _mm256_min_pd(w0, w1));
		max = _mm256_max_pd(max, _mm256_max_pd(w0, w1));
	}
	double least[4], greatest[4];

	_mm256_storeu_pd(least, min);
	_mm256_storeu_pd(greatest, max);
	for (int lane = 0; lane < 4; lane++) {
		sums->min = least[lane] < sums->min ? least[lane] : sums->min;
		sums->max = greatest[lane] > sums->max ? greatest[lane] : sums->max;
	}
	sums->volts = lanes(_mm256_add_pd(volts0, volts1));
	sums->amps = lanes(_mm256_add_pd(amps0, amps1));
	sums->watts = lanes(_mm256_add_pd(watts0, watts1));
	return k;
}

static size_t add_fast(const float *volts, const float *amps, size_t n, const struct energy_scale *scale, struct energy_sums *sums)
{
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return 0;
	return add_vectors(volts, amps, n, scale, sums);
}

AVX2 static int reaches_vectors(const float *samples, size_t n, float limit)
{
	const __m256 limits = _mm256_set1_ps(limit), sign = _mm256_set1_ps(-0.0f);
	__m256 over = _mm256_setzero_ps();

	for (size_t k = 0; k + 8 <= n; k += 8) {
		__m256 magnitude = _mm256_andnot_ps(sign, _mm256_loadu_ps(samples + k));

		over = _mm256_or_ps(over, _mm256_cmp_ps(magnitude, limits, _CMP_GE_OQ));
	}
	return _mm256_movemask_ps(over);
}

static size_t reaches_fast(const float *samples, size_t n, float limit, int *over)
{
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return 0;
	*over = reaches_vectors(samples, n, limit);
	return n / 8 * 8;
}
#else
static size_t reaches_fast(const float *samples, size_t n, float limit, int *over)
{
	(void)samples, (void)n, (void)limit, (void)over;
	return 0;
}

static size_t add_fast(const float *volts, const float *amps, size_t n, const struct energy_scale *scale, struct energy_sums *sums)
{
	(void)volts, (void)amps, (void)n, (void)scale, (void)sums;
	return 0;
}
#endif

void energy_sums(const float *volts, const float *amps, size_t n, const struct energy_scale *scale, struct energy_sums *sums)
{
	*sums = (struct energy_sums){ .min = INFINITY, .max = -INFINITY };
	add_rest(volts, amps, add_fast(volts, amps, n, scale, sums), n, scale, sums);
}

int energy_reaches(const float *samples, size_t n, float limit)
{
	int over = 0;

	for (size_t k = reaches_fast(samples, n, limit, &over); k < n; k++)
		over |= fabsf(samples[k]) >= limit;
	return over != 0;
}
