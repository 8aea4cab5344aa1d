// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sizeOf is the number that a `set $x=` of that text makes of a file's size.
func sizeOf(t *testing.T, text string) Number {
	t.Helper()
	return mustParse(t, "set $x="+text+"\n"+around("define file name=f,path=/,size=$x"), nil).Filesets[1].Size
}

func draws(n Number, count int) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]float64, count)
	for i := range all {
		all[i] = n.Float(r)
	}
	slices.Sort(all)
	return all
}

// kolmogorov is the largest distance between the draws' share and the CDF.
func kolmogorov(sorted []float64, cdf func(float64) float64) float64 {
	worst, n := 0.0, float64(len(sorted))
	for i, x := range sorted {
		p := cdf(x)
		worst = max(worst, p-float64(i)/n, float64(i+1)/n-p)
	}
	return worst
}

// What is drawn is of the stated distribution: Kolmogorov-Smirnov, at 0.1 %.
func TestDraws(t *testing.T) {
	const count = 20000
	bar := 1.95 / math.Sqrt(count)
	erf := func(x, mu, sigma float64) float64 { return math.Erfc((mu-x)/sigma/math.Sqrt2) / 2 }
	gammaCDF := func(shape, mean, low float64) func(float64) float64 {
		return func(x float64) float64 { return shapeCDF(shape, (x-low)*shape/(mean-low)) }
	}
	for text, c := range map[string]struct {
		mean float64
		cdf  func(float64) float64
	}{
		"cvar(type=cvar-gamma,parameters=mean:16384;gamma:1.5)": {16384, gammaCDF(1.5, 16384, 0)},
		"cvar(type=cvar-gamma)":                                 {4096, gammaCDF(1.5, 4096, 0)},
		"cvar(type=cvar-erlang,parameters=shape:2;rate:600)":    {600, gammaCDF(2, 600, 0)},
		"randvar(type=gamma,mean=5632,min=1k,gamma=1500)":       {5632, gammaCDF(1.5, 5632, 1024)},
		"randvar(mean=5632,gamma=500)":                          {5632, gammaCDF(0.5, 5632, 0)},
		"cvar(type=cvar-exponential,parameters=mean:50)":        {50, func(x float64) float64 { return 1 - math.Exp(-x/50) }},
		"cvar(type=cvar-normal,parameters=mean:90;sigma:10)":    {90, func(x float64) float64 { return erf(x, 90, 10) }},
		"cvar(type=cvar-lognormal,parameters=shape:0.5;scale:3)": {math.Exp(3.125),
			func(x float64) float64 { return erf(math.Log(x), 3, 0.5) }},
		"cvar(type=cvar-weibull,parameters=shape:2;scale:100)": {50 * math.Sqrt(math.Pi),
			func(x float64) float64 { return 1 - math.Exp(-x*x/1e4) }},
		"cvar(type=cvar-uniform,parameters=lower:40;upper:60)": {50, func(x float64) float64 { return (x - 40) / 20 }},
		"cvar(type=cvar-triangular,parameters=lower:10;upper:30;mode:30)": {10 + 40./3,
			func(x float64) float64 { return (x - 10) * (x - 10) / 400 }},
		"randvar(type=uniform,mean=30,min=10)": {30, func(x float64) float64 { return (x - 10) / 40 }},
		"randvar(type=tabular,min=10,randtable={{25,10,20},{75,20,60}})": {33.75, func(x float64) float64 {
			return min(0.25*(x-10)/10, 0.25) + max(0, 0.75*(x-20)/40)
		}},
	} {
		n := sizeOf(t, text)
		if math.Abs(n.Mean()-c.mean) > 1e-9*c.mean {
			t.Errorf("%s: mean %v, want %v", text, n.Mean(), c.mean)
		}
		all := draws(n, count)
		if d := kolmogorov(all, c.cdf); d > bar {
			t.Errorf("%s: %v from the stated CDF, at most %v", text, d, bar)
		}
		if d := kolmogorov(all, n.Distribution().CDF); d > bar {
			t.Errorf("%s: %v from its own CDF, at most %v", text, d, bar)
		}
	}
}

// shapeCDF is the regularized lower incomplete gamma function by its series (Abramowitz and Stegun
// 6.5.29).
func shapeCDF(shape, x float64) float64 {
	if x <= 0 {
		return 0
	}
	term := 1 / shape
	sum := term
	for n := 1.0; term > 1e-16*sum; n++ {
		term *= x / (shape + n)
		sum += term
	}
	logGamma, _ := math.Lgamma(shape)
	return sum * math.Exp(shape*math.Log(x)-x-logGamma)
}

func TestTableIsMovedAndStretched(t *testing.T) {
	for text, want := range map[string][3]float64{ // smallest, largest, mean
		"randvar(randtable={{50,10,20},{50,20,50}})":                 {0, 200.0 / 3, 25},
		"randvar(randtable={{50,10,20},{50,20,50}},min=10)":          {10, 50, 25},
		"randvar(randtable={{50,10,20},{50,20,50}},min=10,mean=40)":  {10, 90, 40},
		"randvar(randtable={{0,0,5},{100,7,7}},min=3,mean=10)":       {10, 10, 10},
		"randvar(randtable={{100,8,8}},min=8)":                       {8, 8, 8},
		"randvar(type=tabular,randtable={{1,0,100},{99,0,0}},min=0)": {0, 100, 0.5},
	} {
		n := sizeOf(t, text)
		all := draws(n, 20000)
		if smallest, largest := all[0], all[len(all)-1]; math.Abs(smallest-want[0]) > 0.01*want[1] ||
			math.Abs(largest-want[1]) > 0.05*want[1] || math.Abs(n.Mean()-want[2]) > 1e-9 {
			t.Errorf("%s: %v to %v, mean %v; want %v", text, smallest, largest, n.Mean(), want)
		}
	}
}

func TestRoundingAndLimits(t *testing.T) {
	for text, want := range map[string][3]float64{ // smallest, largest, step
		"randvar(type=uniform,mean=50,round=10)":                                   {0, 100, 10},
		"cvar(type=cvar-normal,parameters=mean:50;sigma:500,round=5)":              {0, 1e9, 5},
		"cvar(type=cvar-normal,parameters=mean:50;sigma:500,min=20,max=80)":        {20, 80, 0},
		"cvar(type=cvar-exponential,parameters=mean:50,max=64,min=16,round=16)":    {16, 64, 16},
		"cvar(type=cvar-lognormal,parameters=shape:4000000000000;scale:1,max=900)": {0, 900, 0},
	} {
		for _, x := range draws(sizeOf(t, text), 2000) {
			if x < want[0] || x > want[1] || want[2] > 0 && math.Mod(x, want[2]) != 0 {
				t.Fatalf("%s: drew %v, want from %v to %v in steps of %v", text, x, want[0], want[1], want[2])
			}
		}
	}
}

func TestSameSeedSameDraws(t *testing.T) {
	n := sizeOf(t, "cvar(type=cvar-gamma)")
	if a, b := draws(n, 100), draws(n, 100); !slices.Equal(a, b) {
		t.Error("they differ")
	}
}

func TestMeanOfAGammaIsItsShapeWhereNoneIsStated(t *testing.T) {
	if got := sizeOf(t, "randvar(type=gamma,gamma=100)").Mean(); got != 0.1 {
		t.Errorf("%v", got)
	}
}

func BenchmarkGammaDraw(b *testing.B) {
	n, r := Drawn(Gamma(1.5, 16384)), rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	for b.Loop() {
		n.Int(r)
	}
}
