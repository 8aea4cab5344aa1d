// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse: no text makes the reader crash or hang. What it takes can be drawn from, and what it
// refuses it refuses in one line.
func FuzzParse(f *testing.F) {
	shipped, err := filepath.Glob("../../personalities/*.f")
	if err != nil || shipped == nil {
		f.Fatal("no personalities", err)
	}
	for _, path := range shipped {
		source, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(source), "nfiles", "5000")
	}
	f.Add(inLoop("flowop hog name=h,value=$n"), "n", "randvar(type=uniform,mean=5)")
	f.Add("define flowop name=f,$a=b { flowop statfile name=s,filesetname=$a }\n"+inLoop("flowop f name=g,$a=some"), "", "")
	f.Add("set $x=2 * 3\nset $y=randvar(randtable={{100,1,$x}})\n"+around("define file name=f,path=/,size=$y"), "x", "1g")
	f.Add(around("eventgen rate=5\nset mode quit firstdone\necho \"${x} \\$y\"\npsrun -1 60"), "x", "true")
	f.Add("define flowop name=f { flowop aiowait name=a }\ndefine flowop name=g { flowop f name=a flowop f name=b }\n"+
		"define flowop name=h { flowop g name=a flowop g name=b,iters=1000000000 }\n"+inLoop("flowop h name=x"), "", "")
	f.Fuzz(func(t *testing.T, source, name, text string) {
		overrides := map[string]string{}
		if name != "" {
			overrides[name] = text
		}
		program, err := Parse("x.f", []byte(source), overrides)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("more than one line: %q", err)
			}
			return
		}
		drawAll(program)
	})
}

// drawAll draws once from each number of a program.
func drawAll(p *Program) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range p.Filesets {
		s.Size.Int(r)
		s.DirWidth.Int(r)
		s.MeanDepth()
	}
	for _, process := range p.Processes {
		for _, thread := range process.Threads {
			for _, o := range flattened(thread.Flowops) {
				o.Size.Int(r)
				o.Iterations.Int(r)
				o.Value.Int(r)
			}
		}
	}
}
