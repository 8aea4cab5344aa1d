// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// drawn makes the number of a randvar or cvar.
func (f *fields) drawn(n *node) Number {
	inner := &fields{node: n, globals: f.globals}
	s := shaped{
		round: float64(inner.integer("round", 0, 0, maxNumber)),
		low:   float64(inner.integer("min", 0, 0, maxNumber)),
		high:  float64(inner.integer("max", maxNumber, 0, maxNumber)),
	}
	if n.what == "cvar" {
		s.Distribution = inner.cvar()
	} else {
		s.Distribution = inner.randvar(s.low)
		s.low = 0
	}
	if inner.err == nil && s.low > s.high {
		inner.err = failure(n.line, "cvar: min %v is above max %v", s.low, s.high)
	}
	if inner.err != nil {
		f.fail(inner.err)
		return Fixed(0)
	}
	return Drawn(s)
}

// randvar is one of Filebench's own: gamma (by default), uniform or tabular.
func (f *fields) randvar(low float64) Distribution {
	kind := "gamma"
	if f.node.table != nil {
		kind = "tabular"
	}
	if f.has("type") {
		kind = f.text("type")
	}
	shape := float64(f.integer("gamma", 1500, 1, 1_000_000)) / 1000
	mean := float64(f.integer("mean", 0, 1, maxNumber))
	switch kind {
	case "gamma":
		if mean == 0 {
			mean = shape
		}
		f.above("mean", mean, low)
		return gammaFrom(shape, mean, low)
	case "uniform":
		f.above("mean", mean, low)
		return inverted{distuv.Uniform{Min: low, Max: 2*mean - low}}
	case "tabular":
		return f.tabular(low, mean)
	}
	f.fail(unknownWord(f.node.line, "randvar: type", kind, []string{"gamma", "uniform", "tabular"}))
	return nil
}

// above refuses a mean that is not above the smallest value.
func (f *fields) above(name string, mean, low float64) {
	if mean <= low {
		f.fail(failure(f.node.line, "%s: %s is %v; must be above min, %v", f.node.what, name, mean, low))
	}
}

// tabular moves and stretches the table as Filebench does: its smallest value becomes min, its mean
// the stated one, or keeps its own.
func (f *fields) tabular(low, mean float64) Distribution {
	var t tabular
	percent, smallest := int64(0), math.Inf(1)
	for _, line := range f.node.table {
		var numbers [3]int64
		for i, v := range line {
			v, err := f.resolve(v)
			if err == nil && (v.kind != numberValue || v.number < 0 || v.number > maxNumber) {
				err = failure(v.line, "randtable: %q; must be a whole number of at least 0", v.String())
			}
			if err != nil {
				f.fail(err)
				return nil
			}
			numbers[i] = v.number
		}
		if percent += min(numbers[0], 101); numbers[1] > numbers[2] {
			f.fail(failure(line[1].line, "randtable: a row from %d to %d", numbers[1], numbers[2]))
		}
		smallest = min(smallest, float64(numbers[1]))
		t.rows = append(t.rows, row{float64(percent), float64(numbers[1]), float64(numbers[2])})
	}
	if percent != 100 {
		f.fail(failure(f.node.line, "randtable: the percents add up to %d; must be 100", percent))
		return nil
	}
	own := t.Mean()
	if mean == 0 {
		mean = own
	}
	scale := 0.0
	if own > smallest {
		scale = (mean - low) / (own - smallest)
	}
	for i, w := range t.rows {
		t.rows[i].from = low + (w.from-smallest)*scale
		t.rows[i].to = low + (w.to-smallest)*scale
	}
	return t
}

// cvar is one of Filebench's custom variables.
func (f *fields) cvar() Distribution {
	kind := f.text("type")
	maker, known := cvars[kind]
	if f.err == nil && !known {
		f.fail(unknownWord(f.node.line, "cvar: type", kind, slices.Collect(maps.Keys(cvars))))
	}
	if f.err != nil {
		return nil
	}
	given := maps.Clone(maker.defaults)
	if f.has("parameters") {
		f.parameters(kind, f.text("parameters"), given)
	}
	for _, name := range maker.positive {
		if given[name] <= 0 {
			f.fail(failure(f.node.line, "%s: %s is %v; must be above 0", kind, name, given[name]))
		}
	}
	d := maker.make(given)
	if d == nil {
		f.fail(failure(f.node.line, "%s: lower, mode and upper must be in this order", kind))
	}
	return d
}

// parameters reads "NAME:NUMBER;..." into given.
func (f *fields) parameters(kind, text string, given map[string]float64) {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return c == ';' }) {
		name, number, _ := strings.Cut(part, ":")
		if _, known := given[name]; !known {
			f.fail(unknownWord(f.node.line, kind+": parameter", name, slices.Collect(maps.Keys(given))))
			return
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !(math.Abs(v) <= maxNumber) || v != 0 && math.Abs(v) < 1e-6 {
			f.fail(failure(f.node.line, "%s: %s is %q; must be a number of at most 2^62", kind, name, number))
			return
		}
		given[name] = v
	}
}

// cvars are the types of `cvar`: their parameters with defaults, and which must be above 0. make
// gives nil where lower, mode and upper are in disorder.
var cvars = map[string]struct {
	defaults map[string]float64
	positive []string
	make     func(map[string]float64) Distribution
}{
	"cvar-gamma": {map[string]float64{"mean": 4096, "gamma": 1.5}, []string{"mean", "gamma"},
		func(p map[string]float64) Distribution { return Gamma(p["gamma"], p["mean"]) }},
	"cvar-erlang": {map[string]float64{"shape": 1, "rate": 1}, []string{"shape", "rate"}, erlang},
	"cvar-exponential": {map[string]float64{"mean": 1}, []string{"mean"},
		func(p map[string]float64) Distribution { return inverted{distuv.Exponential{Rate: 1 / p["mean"]}} }},
	"cvar-lognormal": {map[string]float64{"shape": 1, "scale": 1}, []string{"shape"},
		func(p map[string]float64) Distribution {
			return inverted{distuv.LogNormal{Mu: p["scale"], Sigma: p["shape"]}}
		}},
	"cvar-normal": {map[string]float64{"mean": 0, "sigma": 1}, []string{"sigma"},
		func(p map[string]float64) Distribution {
			return inverted{distuv.Normal{Mu: p["mean"], Sigma: p["sigma"]}}
		}},
	"cvar-triangular": {map[string]float64{"lower": 0, "upper": 1, "mode": 0.5}, nil, triangle},
	"cvar-uniform":    {map[string]float64{"lower": 0, "upper": 1}, nil, uniform},
	"cvar-weibull": {map[string]float64{"shape": 1, "scale": 1}, []string{"shape", "scale"},
		func(p map[string]float64) Distribution {
			return inverted{distuv.Weibull{K: p["shape"], Lambda: p["scale"]}}
		}},
}

// erlang is a gamma of whole shape; what Filebench calls its rate is its mean.
func erlang(p map[string]float64) Distribution {
	return Gamma(max(1, math.Floor(p["shape"])), p["rate"])
}

func uniform(p map[string]float64) Distribution {
	if p["lower"] >= p["upper"] {
		return nil
	}
	return inverted{distuv.Uniform{Min: p["lower"], Max: p["upper"]}}
}

func triangle(p map[string]float64) Distribution {
	if p["lower"] >= p["upper"] || p["mode"] < p["lower"] || p["mode"] > p["upper"] {
		return nil
	}
	return inverted{distuv.NewTriangle(p["lower"], p["upper"], p["mode"], nil)}
}
