// SPDX-License-Identifier: GPL-3.0-or-later

package clockfit

import (
	"math"
	"math/rand/v2"
	"testing"
)

// device simulates an instrument that answers every frame with what it has sampled since the last
// one, and a controller that takes note of it late.
type device struct {
	rate  float64                         // declared
	drift float64                         // seconds of controller per second of device, minus 1
	start int64                           // monotonic ns of sample 0's beginning
	delay func(seconds float64) float64   // of an arrival, s
	lost  func(seconds float64) (n int64) // samples that the stream misses by then
	step  float64                         // between arrivals, s; 0: 20 ms
}

func onTime(float64) float64 { return 1e-4 }

// lateFrom is a delay of so many seconds in [from, to), and 0.1 ms else.
func lateFrom(from, to, seconds float64) func(float64) float64 {
	return func(t float64) float64 {
		if t >= from && t < to {
			return seconds
		}
		return 1e-4
	}
}

// lostAt is a loss of n samples at a time.
func lostAt(at float64, n int64) func(float64) int64 {
	return func(t float64) int64 {
		if t > at {
			return n
		}
		return 0
	}
}

func (d device) trueNS(sample float64) int64 {
	return d.start + int64(math.Round(sample/d.rate*(1+d.drift)*1e9))
}

// run calls each for every arrival.
func (d device) run(from, to float64, each func(index uint64, produced uint64, arrivalNS int64)) {
	step := d.step
	if step == 0 {
		step = 0.020
	}
	for t := from; t < to; t += step {
		produced := uint64(t / (1 + d.drift) * d.rate)
		arrival := d.start + int64((t+d.delay(t))*1e9)
		index := produced
		if d.lost != nil {
			index -= uint64(d.lost(t))
		}
		each(index, produced, arrival)
	}
}

// busy is what a loaded controller of two cores shows: mostly tens of us, a tail of ms, and bursts
// in which all is late.
func busy(r *rand.Rand) func(float64) float64 {
	return func(t float64) float64 {
		d := 60e-6 + 40e-6*r.ExpFloat64()
		if r.Float64() < 0.05 {
			d += 4e-3 * r.Float64()
		}
		if math.Mod(t, 7) > 5.5 {
			d += 2e-3 + 7e-3*r.Float64()
		}
		return d
	}
}

func TestDriftingCrystalIsFollowedThroughJitterAndLoad(t *testing.T) {
	for _, drift := range []float64{-80e-6, 0, 35e-6} {
		r := rand.New(rand.NewPCG(1, 2))
		d := device{rate: 20000, drift: drift, start: 5e9, delay: busy(r)}
		f := New(d.rate, MaxDrift)
		worst := 0.0
		d.run(0.02, 120, func(index, _ uint64, arrival int64) {
			if shift := f.Observe(index, arrival); shift != 0 {
				t.Fatalf("drift %g: %d samples said to be missing, none are", drift, shift)
			}
			if arrival > d.start+30e9 {
				worst = math.Max(worst, math.Abs(float64(f.At(index)-d.trueNS(float64(index))))/1e9)
			}
		})
		// The constant least delay (60 us) and one sample (50 us) cannot be distinguished by arrivals.
		if worst > 250e-6 {
			t.Errorf("drift %g: off by up to %.0f us", drift, worst*1e6)
		}
		if got := f.ObservedRate() / (d.rate / (1 + drift)); math.Abs(got-1) > 5e-6 {
			t.Errorf("drift %g: observed rate %.3f", drift, f.ObservedRate())
		}
		if res := f.Residual(); res <= 0 || res > 10e-3 {
			t.Errorf("drift %g: residual %g", drift, res)
		}
	}
}

func TestFirstSecondIsGoodToMilliseconds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	slow := busy(r)
	d := device{rate: 1000, drift: 50e-6, start: 1e9, delay: func(s float64) float64 {
		if s < 0.1 {
			return 0.050 // the process has only just started
		}
		return slow(s)
	}}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 10, func(index, _ uint64, arrival int64) {
		f.Observe(index, arrival)
		if !f.Ready() {
			return
		}
		if off := float64(f.At(index)-d.trueNS(float64(index))) / 1e9; math.Abs(off) > 3e-3 {
			t.Fatalf("off by %.2f ms after %.2f s", off*1e3, float64(arrival-d.start)/1e9)
		}
	})
	if !f.Ready() {
		t.Error("never ready")
	}
}

func TestNotReadyOnTheFirstArrival(t *testing.T) {
	f := New(1000, MaxDrift)
	f.Observe(20, 1e9)
	if f.Ready() {
		t.Error("one arrival is trusted")
	}
}

func TestSamplesMissingFromTheStreamAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	d := device{rate: 1000, drift: 20e-6, start: 1e9, delay: busy(r), lost: func(s float64) int64 {
		if s > 40 {
			return 700
		}
		return 0
	}}
	f := New(d.rate, MaxDrift)
	var found int64
	var foundAt float64
	d.run(0.02, 60, func(index, produced uint64, arrival int64) {
		if s := f.Observe(index, arrival); s != 0 {
			found += s
			foundAt = float64(arrival-d.start) / 1e9
		}
		if found != 0 {
			if off := float64(f.At(index)-d.trueNS(float64(produced))) / 1e9; math.Abs(off) > 5e-3 {
				t.Fatalf("after the loss off by %.2f ms", off*1e3)
			}
		}
	})
	if found < 690 || found > 702 {
		t.Errorf("%d samples found missing, 700 are", found)
	}
	if foundAt > 43 {
		t.Errorf("found only %.1f s after", foundAt-40)
	}
}

func TestALossInTheFirstSecondsIsFoundToo(t *testing.T) {
	d := device{rate: 1000, start: 1e9, delay: onTime, lost: func(s float64) int64 {
		if s > 1.5 {
			return 200
		}
		return 0
	}}
	f := New(d.rate, MaxDrift)
	var found int64
	d.run(0.02, 8, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
	if found < 198 || found > 202 {
		t.Errorf("%d samples found missing, 200 are", found)
	}
}

func TestUniformLossIsNotTakenForASlowCrystal(t *testing.T) {
	// One sample of a hundred goes missing, all the time: judged against the observed rate nothing
	// would ever be missing.
	d := device{rate: 1000, start: 1e9, delay: onTime, lost: func(s float64) int64 { return int64(s * 10) }}
	f := New(d.rate, MaxDrift)
	var found int64
	d.run(0.02, 100, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
	// All but what a crystal at the limit would explain (100 ppm: 10 samples) and what has not yet
	// lasted long enough.
	if found < 930 || found > 1000 {
		t.Errorf("%d samples found missing, 1000 are", found)
	}
}

// One sample in 2 or 4 seconds goes missing: 500 and 250 ppm. Nothing is taken for a loss but what
// no crystal explains.
func TestATrickleOfLostSamplesIsFound(t *testing.T) {
	for _, every := range []float64{2, 4} {
		const seconds = 240
		d := device{rate: 1000, start: 1e9, delay: onTime, lost: func(s float64) int64 { return int64(s / every) }}
		f := New(d.rate, MaxDrift)
		var found int64
		d.run(0.02, seconds, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
		lost := int64(seconds / every)
		// The crystal's at most 100 ppm are 24 samples; up to 8 have not yet been enough.
		if found < lost-24-8 || found > lost {
			t.Errorf("one in %g s: %d samples found missing, %d are", every, found, lost)
		}
	}
}

// An instrument with a poor clock declares it, and nothing of it is a loss.
func TestAPoorClockThatIsDeclaredIsNoLoss(t *testing.T) {
	d := device{rate: 1000, drift: 450e-6, start: 1e9, delay: onTime}
	f := New(d.rate, 500e-6)
	d.run(0.02, 120, func(index, _ uint64, arrival int64) {
		if s := f.Observe(index, arrival); s != 0 {
			t.Fatalf("%d samples said to be missing", s)
		}
	})
	if math.Abs(f.drift-450e-6) > 15e-6 {
		t.Errorf("drift %g", f.drift)
	}
}

func TestSurplusSamplesAreFound(t *testing.T) {
	d := device{rate: 1000, start: 1e9, delay: onTime, lost: func(s float64) int64 {
		if s > 20 {
			return -300
		}
		return 0
	}}
	f := New(d.rate, MaxDrift)
	var found int64
	d.run(0.02, 30, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
	if found > -298 || found < -302 {
		t.Errorf("%d samples found missing, there are 300 too many", found)
	}
}

func TestALoadBurstIsNoLoss(t *testing.T) {
	// 1.5 s in which nothing is on time by 300 ms.
	d := device{rate: 1000, start: 1e9, delay: func(s float64) float64 {
		if s > 12 && s < 13.5 {
			return 0.3
		}
		return 1e-4
	}}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 30, func(index, _ uint64, arrival int64) {
		if s := f.Observe(index, arrival); s != 0 {
			t.Fatalf("%d samples said to be missing", s)
		}
	})
}

func TestAStartUnderLoadIsNoSurplus(t *testing.T) {
	d := device{rate: 1000, start: 1e9, delay: func(s float64) float64 {
		if s < 3 {
			return 0.15
		}
		return 1e-4
	}}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 20, func(index, _ uint64, arrival int64) {
		if s := f.Observe(index, arrival); s != 0 {
			t.Fatalf("%d samples said to be missing", s)
		}
		if off := f.At(index) - d.trueNS(float64(index)); arrival > d.start+3.2e9 && math.Abs(float64(off)) > 1.5e6 {
			t.Fatalf("still off by %.1f ms", float64(off)/1e6)
		}
	})
}

// expectNoLoss runs a device and fails where a sample is said to be missing, or too many.
func (d device) expectNoLoss(t *testing.T, f *Fit, from, to float64) {
	t.Helper()
	d.run(from, to, func(index, _ uint64, arrival int64) {
		if s := f.Observe(index, arrival); s != 0 {
			t.Fatalf("%d samples said to be missing after %.2f s", s, float64(arrival-d.start)/1e9)
		}
	})
}

func TestRestartKeepsTheCrystal(t *testing.T) {
	d := device{rate: 20000, drift: 90e-6, start: 1e9, delay: onTime}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 40, func(index, _ uint64, arrival int64) { f.Observe(index, arrival) })
	crystal := f.Crystal()
	if math.Abs(crystal-90e-6) > 3e-6 {
		t.Fatalf("crystal %g", crystal)
	}
	f.Restart()
	d.start += 100e9
	d.run(0.02, 9, func(index, _ uint64, arrival int64) {
		f.Observe(index, arrival)
		if f.Ready() {
			if off := float64(f.At(index) - d.trueNS(float64(index))); math.Abs(off) > 0.25e6 {
				t.Fatalf("off by %.2f ms", off/1e6)
			}
		}
	})
	if f.Crystal() != crystal {
		t.Errorf("crystal %g after a restart, %g before", f.Crystal(), crystal)
	}
}

// Joules are scaled by the crystal: half a minute of smooth arrivals is what it takes.
func TestTheCrystalIsKnownFromALongAndSmoothLineOnly(t *testing.T) {
	d := device{rate: 20000, drift: 40e-6, start: 1e9, delay: onTime}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 18, func(index, _ uint64, arrival int64) { f.Observe(index, arrival) })
	if f.Crystal() != 0 {
		t.Errorf("after 18 s the crystal is %g, it cannot be known", f.Crystal())
	}
	d.run(18, 30, func(index, _ uint64, arrival int64) { f.Observe(index, arrival) })
	known := f.Crystal()
	if math.Abs(known-40e-6) > 3e-6 {
		t.Errorf("after 30 s the crystal is %g", known)
	}
	// Whole seconds are late by up to 8 ms: the line's ends are uncertain by more than the crystal.
	d.delay = func(s float64) float64 { return 1e-4 + 2e-3*float64(int(s)*7%5) }
	d.run(30, 120, func(index, _ uint64, arrival int64) { f.Observe(index, arrival) })
	if f.Crystal() != known {
		t.Errorf("a ragged line changed the crystal from %g to %g", known, f.Crystal())
	}
	ragged := New(d.rate, MaxDrift)
	d.run(30, 120, func(index, _ uint64, arrival int64) { ragged.Observe(index, arrival) })
	if ragged.Crystal() != 0 {
		t.Errorf("of a ragged line the crystal is %g", ragged.Crystal())
	}
}

// A crystal that gets 60 ppm slower as it warms up: the line forgets what is over a minute old.
func TestAWarmingCrystalIsFollowed(t *testing.T) {
	const warm = 120.0
	d := device{rate: 20000, start: 1e9, delay: func(s float64) float64 { return 1e-4 + 60e-6*math.Max(0, s-warm) }}
	f := New(d.rate, MaxDrift)
	d.run(0.02, 200, func(index, _ uint64, arrival int64) {
		f.Observe(index, arrival)
		if off := float64(arrival-f.At(index)) / 1e9; arrival > d.start+int64((warm+65)*1e9) && off > 100e-6 {
			t.Fatalf("off by %.0f us after %.1f s", off*1e6, float64(arrival-d.start)/1e9)
		}
	})
	if math.Abs(f.Crystal()-60e-6) > 3e-6 {
		t.Errorf("crystal %g", f.Crystal())
	}
}

// At is the end of a sample: of arrivals without a delay the very moment.
func TestAnArrivalWithoutDelayIsTheEndOfItsLastSample(t *testing.T) {
	f := New(1000, MaxDrift)
	for n := uint64(20); n <= 40000; n += 20 {
		arrival := 5e9 + int64(n)*1e6
		f.Observe(n, arrival)
		if off := f.At(n) - arrival; off < -1000 || off > 1000 {
			t.Fatalf("sample %d ends %d ns off its arrival", n, off)
		}
	}
}

// The delay of an arrival is never negative, also where a loss is a whole number of samples and the
// shift of the least delay is not.
func TestNoSampleIsDatedAfterItsArrival(t *testing.T) {
	lost, lateness := lostAt(12, 700), func(s float64) float64 {
		if s <= 12 {
			return 5e-4
		}
		return 1e-4 + 1e-4*(s-math.Floor(s)) // the first of a second is the earliest
	}
	f := New(1000, MaxDrift)
	found := int64(0)
	for n := int64(20); n <= 20000; n += 20 {
		s := float64(n) / 1000
		arrival := 1e9 + n*1e6 + int64(lateness(s)*1e9)
		index := uint64(n - lost(s))
		found += f.Observe(index, arrival)
		if at := f.At(index); (s < 12 || found != 0) && at > arrival+1000 {
			t.Fatalf("after %.2f s a sample is dated %.2f ms after its arrival", s, float64(at-arrival)/1e6)
		}
	}
	if found != 700 {
		t.Errorf("%d samples found missing, 700 are", found)
	}
}

// The samples before and after a loss lie on one line: of the arrivals that showed it, device time
// is later by the loss than they were taken for.
func TestALongLossBendsNoLine(t *testing.T) {
	const rate = 200_000
	for _, seconds := range []float64{1.5, 20} {
		d := device{rate: rate, drift: -90e-6, start: 1e9, delay: onTime, lost: lostAt(40, int64(seconds*rate))}
		f := New(d.rate, MaxDrift)
		var found int64
		d.run(0.02, 100, func(index, produced uint64, arrival int64) {
			found += f.Observe(index, arrival)
			off := float64(f.At(index)-d.trueNS(float64(produced)))/1e9 - 1e-4
			if found != 0 && math.Abs(off) > 50e-6 {
				t.Fatalf("%g s are lost: off by %.0f us after %.2f s", seconds, off*1e6, float64(arrival-d.start)/1e9)
			}
		})
		if math.Abs(float64(found)-seconds*rate) > 10 {
			t.Errorf("%d samples found missing, %g are", found, seconds*rate)
		}
	}
}

// Once a shift is booked, the next one needs as long to be believed as the first.
func TestOneArrivalAfterAShiftIsNoOtherShift(t *testing.T) {
	for name, then := range map[string]struct {
		lost int64   // samples, negative: surplus
		off  float64 // of the arrival after it was found, s
	}{"late after a loss": {700, 0.1}, "early after a surplus": {-300, -0.1}} {
		shifted := false
		f := New(1000, MaxDrift)
		for n := int64(20); n <= 40000; n += 20 {
			index, arrival := n, 1e9+n*1e6
			if n > 20000 {
				index -= then.lost
			}
			if shifted {
				arrival += int64(then.off * 1e9)
				then.off = 0
			}
			if s := f.Observe(uint64(index), arrival); s != 0 {
				if shifted {
					t.Errorf("%s: %d samples said to be missing", name, s)
				}
				shifted = true
			}
		}
		if !shifted {
			t.Errorf("%s: the first shift was not found", name)
		}
	}
}

func TestFewLateArrivalsAreNoLoss(t *testing.T) {
	d := device{rate: 1000, start: 1e9, step: 0.5, delay: lateFrom(30, 33, 0.3)}
	d.expectNoLoss(t, New(d.rate, MaxDrift), 0.5, 60)
}

func TestALoadBurstAtTheStartIsNoLoss(t *testing.T) {
	d := device{rate: 1000, start: 1e9, delay: lateFrom(0.03, 1.5, 0.3)}
	d.expectNoLoss(t, New(d.rate, MaxDrift), 0.02, 20)
}

// A load at the start that eases off: each arrival is earlier than all before it.
func TestAStartUnderALoadThatEasesOffIsNoSurplus(t *testing.T) {
	d := device{rate: 1000, start: 1e9, step: 0.2, delay: func(s float64) float64 { return math.Max(1e-4, 0.6-0.16*s) }}
	d.expectNoLoss(t, New(d.rate, MaxDrift), 0.2, 20)
}

// An instrument of 10 Hz that begins to send two samples at once.
func TestAShiftBelowThreeSamplesIsNoLoss(t *testing.T) {
	d := device{rate: 10, start: 1e9, step: 0.1, delay: lateFrom(30, 90, 0.2)}
	d.expectNoLoss(t, New(d.rate, MaxDrift), 0.1, 60)
}

// Ten milliseconds: the arrivals that are late for it are not what arrivals are late else.
func TestASmallLossIsFoundWhereArrivalsAreSmooth(t *testing.T) {
	d := device{rate: 1000, start: 1e9, delay: onTime, lost: lostAt(40, 10)}
	f := New(d.rate, MaxDrift)
	var found int64
	d.run(0.02, 43, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
	if found < 9 || found > 11 {
		t.Errorf("%d samples found missing, 10 are", found)
	}
}

// Seconds in which nothing is on time by half a second hide no loss of as much.
func TestALossIsFoundAfterLoadBursts(t *testing.T) {
	burst := lateFrom(20, 21.6, 0.5)
	d := device{rate: 1000, start: 1e9, delay: burst, lost: lostAt(40, 700)}
	f := New(d.rate, MaxDrift)
	var found int64
	d.run(0.02, 44, func(index, _ uint64, arrival int64) { found += f.Observe(index, arrival) })
	if found < 698 || found > 702 {
		t.Errorf("%d samples found missing, 700 are", found)
	}
}

func TestPublishedTimeNeverStepsBack(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	d := device{rate: 1000, drift: -60e-6, start: 1e9, delay: func(s float64) float64 { return 30e-3/(1+s*s) + 3e-3*r.Float64() }}
	f := New(d.rate, MaxDrift)
	var a Axis
	var last int64
	next := uint64(10)
	offset := int64(1_700_000_000e9)
	d.run(0.02, 40, func(index, _ uint64, arrival int64) {
		f.Observe(index, arrival)
		if arrival > d.start+20e9 {
			offset = 1_700_000_000e9 - 2e9 // the controller's clock is set back
		}
		for ; f.Ready() && next <= index; next += 10 {
			utc := a.UTC(f.At(next), offset, 10e6)
			if utc <= last {
				t.Fatalf("sample %d: %d after %d", next, utc, last)
			}
			last = utc
		}
	})
	if off := last - (f.At(next-10) + offset); math.Abs(float64(off)) > 1e6 {
		t.Errorf("time has not come right again, off by %.1f ms", float64(off)/1e6)
	}
}

func TestTheClockSetForwardIsFollowedAtOnce(t *testing.T) {
	var a Axis
	a.UTC(1e9, 100e9, 0)
	if got := a.UTC(1.01e9, 105e9, 10e6); got != 106.01e9 {
		t.Errorf("got %d", got)
	}
}

func TestPublishedTimeRunsAtHalfSpeedWhileItWaits(t *testing.T) {
	var a Axis
	a.UTC(1e9, 100e9, 0)
	if got := a.UTC(1.01e9, 99e9, 10e6); got != 101.005e9 {
		t.Errorf("10 ms after the clock was set back it is %d", got)
	}
	if got := a.UTC(1.01e9, 99e9, 0); got != 101.005e9+1 {
		t.Errorf("at once after it, it is %d: times rise strictly", got)
	}
}

func TestAnAxisThatIsTakenUpGoesOnFromWhatItGaveOut(t *testing.T) {
	var a Axis
	a.Resume(200e9)
	if got := a.UTC(1e9, 100e9, 10e6); got != 200.005e9 || a.Last() != got {
		t.Errorf("got %d, last %d", got, a.Last())
	}
	var fresh Axis
	fresh.Resume(0)
	if got := fresh.UTC(-5e9, 0, 10e6); got != -5e9 {
		t.Errorf("an axis without a past begins at %d", got)
	}
}
