// SPDX-License-Identifier: GPL-3.0-or-later

// Package clockfit finds the controller's time of a device's sample indices from the moments at which samples arrived.
//
// An instrument counts samples with its own clock and sends them without a time. Each arrival is late by an unknown delay
// that is never negative: t(arrival) = t(sample) + delay. Over some seconds the least delay is nearly constant, so the line
// below all arrivals, and as close under them as can be, is the device's clock up to that constant. A least-squares line would
// follow the load of the controller instead.
package clockfit

import "math"

const (
	// Arrivals are kept as the earliest of each bucket, over the window.
	bucketSeconds = 1.0
	windowSeconds = 60.0
	// Below this span a slope from the arrivals would be worse than the declared rate.
	slopeSpanSeconds = 10.0
	// MaxDrift is how far the device's clock may be off the declared rate. Crystals stay below 100 ppm; what is beyond this is
	// missing or surplus samples, and must come out as such rather than bend the clock.
	MaxDrift = 500e-6
	// A shift of the least delay counts as missing samples when it is larger than this and lasts this long. Less than this is
	// within what a busy controller or a batching instrument shows.
	shiftSeconds = 0.025
	shiftPeriods = 3
	holdSeconds  = 2.0
	holdArrivals = 8
	// A stream is ready for use after this long; a single arrival says little about the least delay.
	readySeconds = 0.4
)

// bucket holds the earliest arrival of a stretch of device time.
type bucket struct {
	x     float64 // device time, s
	delay float64 // arrival minus device time at the declared rate, s
	n     float64 // samples received
}

// Fit is the clock of one stream of samples. The zero value is not usable; see New.
type Fit struct {
	rate    float64
	base    int64 // monotonic ns of the first arrival; device time and arrivals are relative to it
	started bool

	buckets []bucket
	offset  int64   // samples found missing (or surplus, if negative) so far
	drift   float64 // slope: 1 + drift seconds of controller per second of device
	at0     float64 // delay of the line at device time 0

	lastArrival int64
	lastIndex   uint64
	lateSince   float64
	lateLeast   float64
	lateCount   int
	lateSign    float64
}

// New returns the fit of a device that declares rateHz samples a second.
func New(rateHz float64) *Fit {
	return &Fit{rate: rateHz}
}

// Restart begins a new stream of the same device: indices start at 0 again. The drift found so far is kept, since it is the
// same crystal.
func (f *Fit) Restart() {
	drift := f.drift
	*f = Fit{rate: f.rate, drift: drift}
}

func (f *Fit) deviceSeconds(index uint64) float64 {
	return float64(int64(index)+f.offset) / f.rate
}

// Observe takes note that at arrivalNS (monotonic) the device had delivered `index` samples. It returns how many samples must
// be missing from the stream before this one (negative: surplus), 0 nearly always: a lasting shift of the least delay is the
// only trace that samples lost inside the instrument leave.
func (f *Fit) Observe(index uint64, arrivalNS int64) int64 {
	if !f.started {
		f.started = true
		f.base = arrivalNS
		f.at0 = math.Inf(1)
	}
	f.lastArrival, f.lastIndex = arrivalNS, index
	arrival := float64(arrivalNS-f.base) / 1e9
	x := f.deviceSeconds(index)
	delay := arrival - x

	if shift := f.watch(arrival, x, delay); shift != 0 {
		f.offset += shift
		f.forget(arrival - holdSeconds - 2*bucketSeconds)
		x = f.deviceSeconds(index)
		delay = arrival - x
		f.add(x, delay, float64(index))
		return shift
	}
	f.add(x, delay, float64(index))
	return 0
}

// watch follows how long all arrivals have been off the line, on the same side.
func (f *Fit) watch(arrival, x, delay float64) int64 {
	if !f.Ready() {
		return 0
	}
	limit := math.Max(shiftSeconds, shiftPeriods/f.rate)
	off := delay - f.lineDelay(x)
	sign := 1.0
	if off < 0 {
		// An early arrival lowers the line. Only a line that has stood for a while makes surplus samples the better
		// explanation: a stream may begin under load, with all its first arrivals late.
		if x-f.buckets[0].x < slopeSpanSeconds {
			return 0
		}
		sign = -1
	}
	if math.Abs(off) <= limit || (f.lateCount > 0 && sign != f.lateSign) {
		f.lateCount = 0
		return 0
	}
	if f.lateCount == 0 {
		f.lateSince, f.lateLeast, f.lateSign = arrival, math.Abs(off), sign
	}
	f.lateCount++
	f.lateLeast = math.Min(f.lateLeast, math.Abs(off))
	if arrival-f.lateSince < holdSeconds || f.lateCount < holdArrivals {
		return 0
	}
	f.lateCount = 0
	return int64(math.Round(sign * f.lateLeast * f.rate))
}

// forget drops what came after `since`: it was booked under indices that have turned out wrong.
func (f *Fit) forget(since float64) {
	for len(f.buckets) > 1 {
		last := f.buckets[len(f.buckets)-1]
		if last.x+last.delay < since {
			break
		}
		f.buckets = f.buckets[:len(f.buckets)-1]
	}
	f.solve()
}

func (f *Fit) add(x, delay, n float64) {
	// A surplus in the making must not pull the line down before it is known for what it is.
	if f.lateCount > 0 && f.lateSign < 0 {
		return
	}
	last := len(f.buckets) - 1
	if last >= 0 && x-math.Floor(f.buckets[last].x/bucketSeconds)*bucketSeconds < bucketSeconds {
		if delay >= f.buckets[last].delay {
			return
		}
		f.buckets[last] = bucket{x, delay, n}
	} else {
		f.buckets = append(f.buckets, bucket{x, delay, n})
		drop := 0
		for f.buckets[drop].x < x-windowSeconds {
			drop++
		}
		f.buckets = append(f.buckets[:0], f.buckets[drop:]...)
	}
	f.solve()
}

// solve finds the line below all buckets with the least sum of distances: the edge of the lower convex hull over their mean.
func (f *Fit) solve() {
	b := f.buckets
	if b[len(b)-1].x-b[0].x >= slopeSpanSeconds {
		var hull []bucket
		mean := 0.0
		for _, p := range b {
			mean += p.x
			for len(hull) >= 2 {
				o, m := hull[len(hull)-2], hull[len(hull)-1]
				if (m.x-o.x)*(p.delay-o.delay)-(m.delay-o.delay)*(p.x-o.x) > 0 {
					break
				}
				hull = hull[:len(hull)-1]
			}
			hull = append(hull, p)
		}
		mean /= float64(len(b))
		for i := 1; i < len(hull); i++ {
			if hull[i].x >= mean {
				f.drift = (hull[i].delay - hull[i-1].delay) / (hull[i].x - hull[i-1].x)
				break
			}
		}
		f.drift = math.Max(-MaxDrift, math.Min(MaxDrift, f.drift))
	}
	// With the slope given (or limited), the line that touches from below.
	f.at0 = math.Inf(1)
	for _, p := range b {
		f.at0 = math.Min(f.at0, p.delay-f.drift*p.x)
	}
}

func (f *Fit) lineDelay(x float64) float64 { return f.at0 + f.drift*x }

// Ready says whether enough has arrived to trust the line.
func (f *Fit) Ready() bool {
	return f.started && float64(f.lastArrival-f.base) >= readySeconds*1e9
}

// At is the monotonic time, in ns, at which the device had `index` samples complete: the end of sample index-1. Meaningless
// before the first arrival.
func (f *Fit) At(index uint64) int64 {
	x := f.deviceSeconds(index)
	return f.base + int64(math.Round((x+f.lineDelay(x))*1e9))
}

// Residual is how ragged the edge is that the line rests on, in seconds: the root mean square height of the buckets' earliest
// arrivals above the line.
func (f *Fit) Residual() float64 {
	if len(f.buckets) == 0 {
		return 0
	}
	sum := 0.0
	for _, p := range f.buckets {
		d := p.delay - f.lineDelay(p.x)
		sum += d * d
	}
	return math.Sqrt(sum / float64(len(f.buckets)))
}

// ObservedRate is the number of samples received per second of the controller over the window, 0 while that is unknown. Unlike
// the line it follows losses.
func (f *Fit) ObservedRate() float64 {
	if len(f.buckets) < 2 {
		return 0
	}
	first, last := f.buckets[0], f.buckets[len(f.buckets)-1]
	seconds := (last.x + last.delay) - (first.x + first.delay)
	if seconds < 2*bucketSeconds {
		return 0
	}
	return (last.n - first.n) / seconds
}
