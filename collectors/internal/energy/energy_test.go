// SPDX-License-Identifier: GPL-3.0-or-later

package energy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"joulerig/collectors/internal/srframe"
)

// book keeps what a rail's points add up to.
type book struct {
	*Rail
	points         []Point
	joules         float64
	total          int64
	unusable, over int64
}

func collect(sampling Sampling, rate float64, perPoint int) (*book, *[]Point) {
	b := &book{}
	b.Rail = NewRail(sampling, rate, perPoint, NoScale, NoRange, func(p Point) {
		b.points = append(b.points, p)
		b.joules += p.Joules
		b.total += p.Samples
	})
	return b, &b.points
}

func (b *book) Joules() float64 { return b.joules }

func (b *book) Add(first uint64, volts, amps []float32) {
	b.Rail.Add(first, volts, amps, func(_ uint64, n int64, kind Kind) {
		if b.unusable += n; kind == Over {
			b.over += n
		}
	})
}

func expectNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s: %.12g, want %.12g", what, got, want)
	}
}

func fill(n int, v float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = v
	}
	return s
}

func TestPowerIsMultipliedPerSampleNotMeanByMean(t *testing.T) {
	// A rail that droops from 12 V to 11 V whenever it gives 10 A.
	volts, amps := fill(1000, 12), fill(1000, 0)
	for i := 0; i < 1000; i += 2 {
		volts[i], amps[i] = 11, 10
	}
	r, points := collect(WindowMean, 1000, 100)
	r.Add(0, volts, amps)
	expectNear(t, "joules", r.Joules(), 55)
	p := (*points)[9]
	expectNear(t, "watts", p.Watts, 55)
	expectNear(t, "mean V x mean I, which is wrong", p.Volts*p.Amps, 57.5)
	if p.Min != 0 || p.Max != 110 {
		t.Errorf("min %g, max %g", p.Min, p.Max)
	}
}

func TestSignIsKept(t *testing.T) {
	r, points := collect(WindowMean, 10, 10)
	r.Add(0, fill(10, 5), fill(10, 2))
	r.Add(10, fill(10, 5), fill(10, -1))
	expectNear(t, "joules after both", r.Joules(), 10-5)
	expectNear(t, "mean amps", (*points)[1].Amps, -1)
	expectNear(t, "least watts", (*points)[1].Min, -5)
}

func TestWindowMeansAreSummed(t *testing.T) {
	r, _ := collect(WindowMean, 100, 1)
	r.Add(0, []float32{1, 1, 1}, []float32{1, 2, 3})
	expectNear(t, "joules", r.Joules(), 0.06)
}

func TestPointSamplesAreTrapezoids(t *testing.T) {
	r, points := collect(PointSamples, 100, 2)
	r.Add(0, []float32{1, 1, 1}, []float32{1, 2, 3})
	r.Add(3, []float32{1}, []float32{5})
	expectNear(t, "joules between four instants", r.Joules(), (1.5+2.5+4)/100)
	expectNear(t, "joules up to the second instant", (*points)[0].Joules, 0.015)
}

func TestTrapezoidOfASineIsItsIntegral(t *testing.T) {
	const rate, n = 1000.0, 1001
	volts, amps := fill(n, 1), make([]float32, n)
	for i := range amps {
		amps[i] = float32(math.Sin(math.Pi * float64(i) / (n - 1)))
	}
	r, _ := collect(PointSamples, rate, 100)
	r.Add(0, volts, amps)
	r.Break()
	if got, want := r.Joules(), 2/math.Pi; math.Abs(got-want) > 1e-6 {
		t.Errorf("%g, want %g", got, want)
	}
}

func TestAGapIsNotFilled(t *testing.T) {
	for _, sampling := range []Sampling{WindowMean, PointSamples} {
		r, points := collect(sampling, 1000, 10)
		r.Add(0, fill(15, 12), fill(15, 1))
		r.Add(500, fill(20, 12), fill(20, 1))
		r.Break()
		want := 35 * 12e-3
		if sampling == PointSamples {
			want = (14 + 19) * 12e-3 // intervals between neighbours that were both seen
		}
		expectNear(t, "joules", r.Joules(), want)
		var ends []uint64
		for _, p := range *points {
			ends = append(ends, p.End)
		}
		if len(ends) != 4 || ends[0] != 10 || ends[1] != 15 || ends[2] != 510 || ends[3] != 520 {
			t.Errorf("points end at %v, want 10 15 510 520", ends)
		}
	}
}

func TestWhatIsNoNumberIsAGapAndPoisonsNothing(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	r, points := collect(WindowMean, 10, 5)
	r.Add(0, []float32{1, nan, 1, inf, 1}, []float32{2, 2, nan, 2, 2})
	if r.unusable != 3 {
		t.Errorf("%d unusable, want 3", r.unusable)
	}
	expectNear(t, "joules", r.Joules(), 0.4)
	if p := (*points)[0]; p.Samples != 2 || p.Watts != 2 {
		t.Errorf("point %+v", p)
	}
	if r.Add(5, fill(5, nan), fill(5, 1)); r.unusable != 8 || len(*points) != 1 {
		t.Error("a point was made of nothing")
	}
}

func TestNoTrapezoidIsDrawnOverASampleThatWasNotMeasured(t *testing.T) {
	nan := float32(math.NaN())
	for what, sample := range map[string][2]float32{"lost": {nan, 1}, "over range": {12, 5}} {
		for _, at := range []int{5, 9, 10} { // within a point, its last, its first
			joules := 0.0
			r := NewRail(PointSamples, 1000, 10, NoScale, Range{Volts: 20, Amps: 5}, func(p Point) { joules += p.Joules })
			volts, amps := fill(20, 12), fill(20, 1)
			volts[at], amps[at] = sample[0], sample[1]
			r.Add(0, volts, amps, nil)
			// Of the 19 intervals between neighbours, two have it at an end.
			expectNear(t, fmt.Sprintf("joules where sample %d is %s", at, what), joules, 17*12e-3)
		}
	}
}

// A sample is over range at full scale, whatever its sign; what SCPI has for no number is lost.
func TestWhatIsOverRangeAndWhatIsLostIsSeenInItsPlace(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		volts, amps float32
		kind        Kind
	}{
		{19.99, 4.99, measured}, {-19.99, -4.99, measured}, {6, 1, measured}, {20, 1, Over}, {-20, 1, Over},
		{12, 5, Over}, {12, -5, Over}, {12, 9.9e37, Over}, {-9.9e37, 1, Over}, {inf, 1, Over},
		{12, nan, Lost}, {nan, 1, Lost}, {9.91e37, 1, Lost}, {12, -9.91e37, Lost},
	} {
		for _, n := range []int{8, 200} { // below and above what is summed by the kernel
			samples, from, gaps, over := int64(0), uint64(0), int64(0), false
			r := NewRail(WindowMean, 1000, 500, NoScale, Range{Volts: 20, Amps: 5}, func(p Point) { samples += p.Samples })
			volts, amps := fill(n, 12), fill(n, 1)
			volts[n/2], amps[n/2] = c.volts, c.amps
			r.Add(1000, volts, amps, func(first uint64, n int64, kind Kind) { from, gaps, over = first, gaps+n, kind == Over })
			r.Break()
			if c.kind == measured {
				if samples != int64(n) || gaps != 0 {
					t.Errorf("%g V, %g A of %d: %d measured, %d not", c.volts, c.amps, n, samples, gaps)
				}
			} else if samples != int64(n)-1 || gaps != 1 || from != 1000+uint64(n)/2 || over != (c.kind == Over) {
				t.Errorf("%g V, %g A of %d: %d measured, %d not, from %d on, over range %v", c.volts, c.amps, n, samples, gaps, from, over)
			}
		}
	}
}

// Of an instrument whose range is not known too.
func TestWhatSCPIHasForInfiniteIsOverRange(t *testing.T) {
	for _, n := range []int{8, 200} {
		for what, sample := range map[string][2]float32{"volts": {9.9e37, 1}, "amps": {12, -9.9e37}} {
			r, points := collect(WindowMean, 1000, 500)
			volts, amps := fill(n, 12), fill(n, 1)
			volts[n/2], amps[n/2] = sample[0], sample[1]
			r.Add(0, volts, amps)
			r.Break()
			if r.over != 1 || (*points)[0].Watts != 12 {
				t.Errorf("%s of %d: %d over range, point %+v", what, n, r.over, (*points)[0])
			}
		}
	}
}

func TestReadingsAreCorrectedByTheirOwnChannelsCalibration(t *testing.T) {
	for _, n := range []int{5, 200} {
		var got Point
		r := NewRail(WindowMean, 1000, n, Scale{VoltsGain: 2, VoltsOffset: 1, AmpsGain: 3, AmpsOffset: -1}, NoRange, func(p Point) { got = p })
		r.Add(0, fill(n, 5), fill(n, 2), nil)
		if got.Volts != 11 || got.Amps != 5 || got.Watts != 55 || got.Min != 55 || got.Max != 55 {
			t.Errorf("%d samples: %+v", n, got)
		}
	}
}

func TestExtremesAndTrapezoidsAreThoseOfOnePoint(t *testing.T) {
	r, points := collect(PointSamples, 10, 5)
	amps := append(append(fill(5, 1), fill(5, 9)...), fill(5, 4)...)
	r.Add(0, fill(15, 1), amps)
	for n, want := range []struct{ least, most, joules float64 }{{1, 1, 0.4}, {9, 9, 0.5 + 3.6}, {4, 4, 0.65 + 1.6}} {
		p := (*points)[n]
		expectNear(t, "joules", p.Joules, want.joules)
		if p.Min != want.least || p.Max != want.most || p.End != uint64(n+1)*5 {
			t.Errorf("point %d: %+v, want %+v", n, p, want)
		}
	}
}

func TestSamplesThatComeAgainAreNotJoinedWithThoseBefore(t *testing.T) {
	r, points := collect(WindowMean, 10, 10)
	r.Add(5, fill(3, 1), fill(3, 1))
	r.Add(2, fill(3, 1), fill(3, 1))
	r.Break()
	if len(*points) != 2 || (*points)[0].End != 8 || (*points)[1].End != 5 {
		t.Errorf("points %+v", *points)
	}
}

// What the capture has summed is as good as the samples themselves.
func TestSumsAreIntegratedAsTheirSamplesAre(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	volts, amps := fill(100, 2), make([]float32, 100)
	for k := range amps {
		amps[k] = rnd.Float32()
	}
	for _, sampling := range []Sampling{WindowMean, PointSamples} {
		each, want := collect(sampling, 10, 10)
		each.Add(0, volts, amps)
		summed, got := collect(sampling, 10, 10)
		for first := 0; first < 100; first += 5 { // up to the very end of a point too
			s := sumPlain(volts[first:first+5], amps[first:first+5], &NoScale)
			stretch := srframe.Stretch{
				N: 5, Volts: s.volts, Amps: s.amps, Watts: s.watts, Min: s.min, Max: s.max,
				First: 2 * float64(amps[first]), Last: 2 * float64(amps[first+4]),
			}
			if err := summed.AddSums(uint64(first), &stretch, nil); err != nil {
				t.Fatal(err)
			}
		}
		for n, p := range *want {
			q := (*got)[n]
			expectNear(t, "joules", q.Joules, p.Joules)
			expectNear(t, "amps", q.Amps, p.Amps)
			if q.End != p.End || q.Samples != p.Samples || q.Min != p.Min || q.Max != p.Max {
				t.Errorf("point %d: %+v, want %+v", n, q, p)
			}
		}
	}
}

func TestSumsOverTheEndOfAPointAreRefused(t *testing.T) {
	r, points := collect(WindowMean, 10, 10)
	for _, s := range []struct{ first, n int64 }{{5, 6}, {0, 11}, {0, 0}} {
		if err := r.AddSums(uint64(s.first), &srframe.Stretch{N: s.n}, nil); err == nil {
			t.Errorf("%d samples from %d on were taken", s.n, s.first)
		}
	}
	if r.Break(); len(*points) != 0 {
		t.Errorf("points %+v", *points)
	}
}

func TestPointsDoNotDependOnHowSamplesArrive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const n = 10000
	volts, amps := make([]float32, n), make([]float32, n)
	for i := range volts {
		volts[i], amps[i] = 12-rnd.Float32(), 3*rnd.Float32()
	}
	whole, all := collect(WindowMean, 1000, 10)
	whole.Add(0, volts, amps)
	pieces, some := collect(WindowMean, 1000, 10)
	for at := 0; at < n; {
		k := min(1+rnd.IntN(97), n-at)
		pieces.Add(uint64(at), volts[at:at+k], amps[at:at+k])
		at += k
	}
	if len(*all) != n/10 || len(*some) != n/10 {
		t.Fatalf("%d and %d points", len(*all), len(*some))
	}
	for i, p := range *all {
		q := (*some)[i]
		if p.End != q.End || p.Samples != q.Samples || p.Min != q.Min || p.Max != q.Max {
			t.Fatalf("point %d: %+v, %+v", i, p, q)
		}
		expectNear(t, "joules", q.Joules, p.Joules)
	}
}

func TestNewStreamGoesOnWithTheSameCounter(t *testing.T) {
	r, points := collect(PointSamples, 10, 10)
	r.Add(0, fill(11, 1), fill(11, 1))
	r.Break()
	r.Add(0, fill(11, 1), fill(11, 1))
	r.Break()
	expectNear(t, "joules", r.Joules(), 2)
	if last := (*points)[len(*points)-1]; r.total != 22 || last.End != 11 {
		t.Errorf("last point %+v", last)
	}
}

func TestEnergyDoesNotDriftOverAManyPointSum(t *testing.T) {
	r, _ := collect(WindowMean, 1000, 10)
	volts, amps := fill(1000, 3.25), fill(1000, 0.125)
	for s := range uint64(3600) {
		r.Add(s*1000, volts, amps)
	}
	expectNear(t, "joules of an hour", r.Joules(), 3600*3.25*0.125)
}

func BenchmarkAdd(b *testing.B) {
	r := NewRail(WindowMean, 1e6, 10000, NoScale, NoRange, func(Point) {})
	volts, amps := fill(20000, 12), fill(20000, 1)
	b.SetBytes(2 * 4 * 20000)
	b.ReportAllocs()
	var at uint64
	for b.Loop() {
		r.Add(at, volts, amps, nil)
		at += 20000
	}
}
