// SPDX-License-Identifier: GPL-3.0-or-later

// Package clockfit finds the controller's time of a device's sample indices from the moments at
// which samples arrived.
//
// An instrument counts samples with its own clock and sends them without a time. Each arrival is
// late by an unknown delay that is never negative: t(arrival) = t(sample) + delay. Over some
// seconds the least delay is nearly constant, so the line below all arrivals, and as close under
// them as can be, is the device's clock up to that constant. A least-squares line would follow the
// load of the controller instead.
package clockfit

import "math"

const (
	// Arrivals are kept as the earliest of each bucket, over the window.
	bucketSeconds = 1.0
	windowSeconds = 60.0
	// Below this span a slope from the arrivals would be worse than the declared rate.
	slopeSpanSeconds = 10.0
	// What it takes to know the crystal: the slope is uncertain by the raggedness of the line's two
	// ends over its length.
	crystalSpanSeconds = 20.0
	crystalEnds        = 4
	crystalSure        = 20e-6
	// MaxDrift is how far a device's clock is off the declared rate at most, where nothing else is
	// declared: crystals stay below 100 ppm. What is beyond it is missing or surplus samples, and must
	// come out as such rather than bend the clock.
	MaxDrift = 100e-6
	// A shift of the least delay counts as missing samples when it is larger than what a busy
	// controller or a batching instrument shows, and lasts. What they show is learnt from the last
	// minute: shiftNoise times the least delays' greatest height above the line, between the two
	// limits; the upper one until there is something to learn from.
	leastShiftSeconds = 0.002
	mostShiftSeconds  = 0.025
	shiftPeriods      = 3
	shiftNoise        = 2
	// How long it has to last, and over how many arrivals; they are kept as extremes of slots.
	holdSeconds  = 2.0
	holdArrivals = 8
	slotSeconds  = 0.1
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
	most    float64 // drift
	base    int64   // monotonic ns of the first arrival; device time and arrivals are relative to it
	started bool

	buckets []bucket
	offset  int64   // samples found missing (or surplus, if negative) so far
	crystal float64 // the slope when it was last known well
	drift   float64 // slope: 1 + drift seconds of controller per second of device
	at0     float64 // delay of the line at device time 0
	// The line that any drift may have: what scatters above it is noise. It is another one where
	// samples go missing one by one.
	free, freeAt0 float64
	quietFrom     float64 // device time from which on it is made

	lastArrival int64
	slots       []slot // of the last holdSeconds
}

// slot holds how far off the line the arrivals of a short time were.
type slot struct {
	since       float64 // arrival, s
	least, most float64 // s, positive: late
	arrivals    int
}

// New returns the fit of a device that declares rateHz samples a second, and is off that by
// maxDrift at most.
func New(rateHz, maxDrift float64) *Fit {
	return &Fit{rate: rateHz, most: maxDrift}
}

// Restart begins a new stream of the same device: indices start at 0 again. The drift found so far
// is kept, since it is the same crystal.
func (f *Fit) Restart() {
	*f = Fit{rate: f.rate, most: f.most, drift: f.drift, crystal: f.crystal}
}

func (f *Fit) deviceSeconds(index uint64) float64 {
	return float64(int64(index)+f.offset) / f.rate
}

// Observe takes note that at arrivalNS (monotonic) the device had delivered `index` samples. It
// returns how many samples must be missing from the stream before this one (negative: surplus), 0
// nearly always: a lasting shift of the least delay is the only trace that samples lost inside the
// instrument leave.
func (f *Fit) Observe(index uint64, arrivalNS int64) int64 {
	if !f.started {
		f.started = true
		f.base = arrivalNS
		f.at0 = math.Inf(1)
	}
	f.lastArrival = arrivalNS
	arrival := float64(arrivalNS-f.base) / 1e9
	x := f.deviceSeconds(index)
	delay := arrival - x

	if len(f.buckets) == 0 {
		f.add(x, delay, float64(index))
		return 0
	}
	off := delay - f.lineDelay(x)
	f.note(arrival, off)
	shift := f.shift(x)
	if shift != 0 {
		f.book(shift)
		x = f.deviceSeconds(index)
		delay = arrival - x
		off = delay - f.lineDelay(x)
	}
	// A surplus in the making must not pull the line down before it is known for what it is.
	if off >= -f.limit() || !f.stands(x) {
		f.add(x, delay, float64(index))
	}
	return shift
}

// stands says whether the line has stood for long enough that an early arrival means surplus
// samples rather than a line that was too high: a stream may begin under load, with all its first
// arrivals late.
func (f *Fit) stands(x float64) bool {
	return len(f.buckets) > 0 && x-f.buckets[0].x >= slopeSpanSeconds
}

func (f *Fit) note(arrival, off float64) {
	last := len(f.slots) - 1
	if last < 0 || arrival-f.slots[last].since >= slotSeconds {
		f.slots = append(f.slots, slot{arrival, off, off, 1})
	} else {
		s := &f.slots[last]
		s.least, s.most, s.arrivals = math.Min(s.least, off), math.Max(s.most, off), s.arrivals+1
	}
	// One slot reaches back to holdSeconds ago or further.
	drop := 0
	for drop+1 < len(f.slots) && f.slots[drop+1].since <= arrival-holdSeconds {
		drop++
	}
	f.slots = append(f.slots[:0], f.slots[drop:]...)
}

// shift is by how many samples all arrivals of the last holdSeconds have been off the line, on the
// same side: that many must be missing (or too many, if negative).
func (f *Fit) shift(x float64) int64 {
	newest := f.slots[len(f.slots)-1].since
	if !f.Ready() || newest-f.slots[0].since < holdSeconds-slotSeconds {
		return 0
	}
	least, most, arrivals := math.Inf(1), math.Inf(-1), 0
	for _, s := range f.slots {
		least, most, arrivals = math.Min(least, s.least), math.Max(most, s.most), arrivals+s.arrivals
	}
	if arrivals < holdArrivals {
		return 0
	}
	limit := f.limit()
	switch {
	case least > limit:
		return f.samplesIn(least)
	case most < -limit && f.stands(x):
		return f.samplesIn(most)
	}
	return 0
}

// samplesIn is how many samples the device makes in so many seconds of the controller.
func (f *Fit) samplesIn(seconds float64) int64 {
	return int64(math.Round(seconds / (1 + f.drift) * f.rate))
}

// book takes note of samples that were missing before all that came in the last holdSeconds: those
// arrivals were of later device time than they were taken for.
func (f *Fit) book(shift int64) {
	f.offset += shift
	seconds := float64(shift) / f.rate
	since := f.slots[0].since
	if math.Abs(f.free) > f.most {
		// They went missing one by one, which is no noise of what comes from here on.
		f.quietFrom = f.buckets[0].x
		for i := range f.buckets {
			if b := &f.buckets[i]; b.x+b.delay < since {
				f.quietFrom = b.x + bucketSeconds
			}
		}
	}
	for i := range f.slots {
		f.slots[i].least -= seconds
		f.slots[i].most -= seconds
	}
	for i := range f.buckets {
		if b := &f.buckets[i]; b.x+b.delay >= since {
			b.x += seconds
			b.delay -= seconds
		}
	}
	if shift > 0 {
		f.solve()
	}
}

// limit is the least shift that counts.
func (f *Fit) limit() float64 {
	least := math.Max(leastShiftSeconds, shiftPeriods/f.rate)
	most := math.Max(mostShiftSeconds, least)
	known := f.quiet()
	known = known[:max(0, len(known)-int(holdSeconds/bucketSeconds)-1)]
	if len(known) == 0 || known[len(known)-1].x-known[0].x < slopeSpanSeconds {
		return most
	}
	height := 0.0
	for _, p := range known {
		height = math.Max(height, p.delay-f.freeAt0-f.free*p.x)
	}
	return math.Min(most, math.Max(least, shiftNoise*height))
}

// quiet are the buckets whose scatter is noise.
func (f *Fit) quiet() []bucket {
	k := 0
	for k < len(f.buckets) && f.buckets[k].x < f.quietFrom {
		k++
	}
	return f.buckets[k:]
}

func (f *Fit) add(x, delay, n float64) {
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

// solve finds the line below all buckets with the least sum of distances.
func (f *Fit) solve() {
	if slope, long := lowerSlope(f.buckets); long {
		f.drift = math.Max(-f.most, math.Min(f.most, slope))
	}
	f.at0 = touching(f.buckets, f.drift)
	quiet := f.quiet()
	slope, long := lowerSlope(quiet)
	if !long {
		slope = f.drift
	}
	f.free, f.freeAt0 = slope, touching(quiet, slope)
}

// lowerSlope is the slope of that edge of the lower convex hull that is over the buckets' mean, if
// they are long enough for one.
func lowerSlope(b []bucket) (slope float64, long bool) {
	if len(b) == 0 || b[len(b)-1].x-b[0].x < slopeSpanSeconds {
		return 0, false
	}
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
			return (hull[i].delay - hull[i-1].delay) / (hull[i].x - hull[i-1].x), true
		}
	}
	return 0, false
}

// touching is the height at device time 0 of the line of a slope that touches buckets from below.
func touching(b []bucket, slope float64) float64 {
	at0 := math.Inf(1)
	for _, p := range b {
		at0 = math.Min(at0, p.delay-slope*p.x)
	}
	return at0
}

func (f *Fit) lineDelay(x float64) float64 { return f.at0 + f.drift*x }

// Ready says whether enough has arrived to trust the line.
func (f *Fit) Ready() bool {
	return f.started && float64(f.lastArrival-f.base) >= readySeconds*1e9
}

// At is the monotonic time, in ns, at which the device had `index` samples complete: the end of
// sample index-1. Meaningless before the first arrival.
func (f *Fit) At(index uint64) int64 {
	x := f.deviceSeconds(index)
	return f.base + int64(math.Round((x+f.lineDelay(x))*1e9))
}

// Crystal is how much slower than declared the device's clock is: a second of it takes 1 + Crystal
// seconds of the controller's. It is the line's slope where the line is long and smooth enough to
// tell it to crystalSure, else what it was when that was last so.
func (f *Fit) Crystal() float64 {
	if n := len(f.buckets); n > 0 {
		span := f.buckets[n-1].x - f.buckets[0].x
		if span >= crystalSpanSeconds && crystalEnds*f.Residual() < crystalSure*span {
			f.crystal = f.drift
		}
	}
	return f.crystal
}

// Residual is how ragged the edge is that the line rests on, in seconds: the root mean square
// height of the buckets' earliest arrivals above the line.
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

// ObservedRate is the number of samples received per second of the controller over the window, 0
// while that is unknown. Unlike the line it follows losses.
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
