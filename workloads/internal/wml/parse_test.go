// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"fmt"
	"strings"
	"testing"
)

// around puts lines into a workload that is whole: a fileset before them, a process after them. The
// lines begin at line 2.
func around(lines string) string {
	return "define fileset name=some,path=/tmp,dirwidth=20,entries=100\n" + lines + `
define process name=p { thread name=t { flowop openfile name=o,filesetname=some,fd=1 } }`
}

// inLoop puts flowops into one, from line 5 on.
func inLoop(flowops string) string {
	return `set $n=4
define fileset name=some,path=/tmp,dirwidth=20,entries=100
define process name=p
{ thread name=t {
` + flowops + `
} }`
}

func mustParse(t *testing.T, source string, overrides map[string]string) *Program {
	t.Helper()
	p, err := Parse("x.f", []byte(source), overrides)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func firstFlowop(t *testing.T, flowop string) *Flowop {
	t.Helper()
	return mustParse(t, inLoop(flowop), nil).Processes[0].Threads[0].Flowops[0]
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		// words
		{"defin x", `1: command "defin": unknown; nearest is "define"`},
		{"{", `1: "{": a command is expected`},
		{"define thing name=x", `1: define "thing": unknown; nearest is "file"`},
		{"define fileset name=a,path=/tmp,entrys=5", `1: fileset "a": attribute "entrys": unknown; nearest is "entries"`},
		{"define file name=a,path=/tmp,entries=5", `1: file "a": attribute "entries": unknown; nearest is "name"`},
		{"define process name=p,nise=3 {", `1: process "p": attribute "nise": unknown; nearest is "nice"`},
		{inLoop("flowop opnefile name=o"), `5: flowop "opnefile": unknown; nearest is "openfile"`},
		{inLoop("flowop openfile name=o,filesetname=some,\n  iosise=3"), `6: flowop "o": attribute "iosise": unknown; nearest is "iosize"`},
		{inLoop("flowops openfile name=o"), `5: thread "t": word "flowops": unknown; nearest is "flowop"`},
		{inLoop("flowop openfile name=o,filesetname=sone"), `5: flowop "o": fileset "sone": unknown; nearest is "some"`},
		{inLoop("flowop wakeup name=w,target=absent"), `5: flowop "w": target "absent": unknown; there is none`},
		{inLoop("flowop block name=bed\nflowop wakeup name=w,target=bad"), `6: flowop "w": target "bad": unknown; nearest is "bed"`},
		{inLoop("flowop semblock name=s,value=1\nflowop wakeup name=w,target=s"), `6: flowop "w": target "s": unknown; there is none`},
		{inLoop("flowop iopslimit name=i,target=reed\nflowop read name=read,fd=1,iosize=1k"),
			`5: flowop "i": target "reed": unknown; nearest is "read"`},
		{inLoop("flowop read name=r,iosize=$m"), `5: variable "$m": unknown; nearest is "$n"`},
		{"set mode quit firstdun", `1: set mode quit "firstdun": unknown; nearest is "firstdone"`},
		{"set mode fast", `1: set mode "fast": unknown; nearest is "quit"`},
		{"create trees", `1: create "trees": unknown; nearest is "files"`},
		{"enable everything", `1: enable "everything": unknown; nearest is "lathist"`},
		{"list flowops", `1: list "flowops": unknown; nearest is "flowop"`},
		{"stats dump", `1: stats "dump": unknown; nearest is "snap"`},
		{around("set $x=cvar(type=cvar-gama)\ndefine file name=f,path=/,size=$x"), `2: cvar: type "cvar-gama": unknown; nearest is "cvar-gamma"`},
		{around("set $x=cvar(type=cvar-gamma,parameters=men:5)\ndefine file name=f,path=/,size=$x"),
			`2: cvar-gamma: parameter "men": unknown; nearest is "mean"`},
		{around("set $x=randvar(type=gama)\ndefine file name=f,path=/,size=$x"), `2: randvar: type "gama": unknown; nearest is "gamma"`},
		{"set $x=randvar(tipe=gamma)", `1: randvar: attribute "tipe": unknown; nearest is "type"`},

		// what makes no sense here
		{`system "sync"`, `1: command "system": refused: a workload runs no shell commands`},
		{"enable multi master=a,client=b", `1: enable multi: refused: a workload runs on one host`},
		{"domultisync value=1", `1: command "domultisync": refused: a workload runs on one host`},
		{around("run 60\nset $x=1"), `3: command "set": comes after the run, and nothing would run it`},
		{around("run\nrun"), `3: command "run": comes after the run, and nothing would run it`},

		// twice
		{around("define fileset name=some,path=/tmp,dirwidth=20"), `2: fileset "some": defined twice`},
		{around("define file name=some,path=/tmp"), `2: file "some": defined twice`},
		{around("define process name=p { thread name=t { flowop aiowait name=a } }"), `3: process "p": defined twice`},
		{"define process name=p { thread name=t { flowop aiowait name=a }\nthread name=t { flowop aiowait name=a } }",
			`2: thread "t": defined twice`},
		{"define flowop name=f { flowop aiowait name=a }\ndefine flowop name=f { flowop aiowait name=a }", `2: flowop "f": defined twice`},
		{"define flowop name=read { flowop aiowait name=a }", `1: flowop "read": defined twice`},
		{"define file name=a,path=/tmp,path=/var", `1: file "a": path is stated twice`},
		{"define file name=a,path=/tmp,size=1,filesize=2", `1: file "a": filesize is stated twice`},
		{"define flowop name=f,$a,$a { flowop aiowait name=x }", `1: flowop "f": "$a" is stated twice`},

		// missing
		{around("define file path=/tmp"), `2: file: name is missing`},
		{around("define fileset name=a,path=/tmp"), `2: fileset "a": dirwidth is missing`},
		{around("define fileset name=a,dirwidth=2"), `2: fileset "a": path is missing`},
		{inLoop("flowop openfile name=o,fd=1"), `5: flowop "o": filesetname is missing`},
		{inLoop("flowop deletefile name=d"), `5: flowop "d": filesetname is missing`},
		{inLoop("flowop read name=r,fd=1"), `5: flowop "r": iosize is missing`},
		{inLoop("flowop hog name=h"), `5: flowop "h": value is missing`},
		{inLoop("flowop sempost name=s,value=1"), `5: flowop "s": target is missing`},
		{inLoop("flowop closefile\nflowop closefile name=c"), `5: flowop: name is missing`},
		{"define flowop { flowop aiowait name=a }", `1: define flowop: name is missing, or is no word`},
		{"define randvar type=gamma", `1: define randvar: name is missing, or is no variable`},
		{"define process name=p { }", `1: process "p": has no thread`},
		{"define process name=p { thread name=t { } }", `1: thread "t": has no flowop`},
		{"set $x=1\n", `2: no process is defined`},
		{"", `1: no process is defined`},

		// of the wrong kind, or out of range
		{around("define fileset name=a,path=/tmp,dirwidth=2,entries=many"),
			`2: fileset "a": entries is "many"; must be a whole number from 0 to 1000000000`},
		{"set $n=many\n" + around("define fileset name=a,path=/tmp,dirwidth=2,entries=$n"),
			`3: fileset "a": entries is "many" ($n); must be a whole number from 0 to 1000000000`},
		{"set $n=cvar(type=cvar-gamma)\n" + around("define fileset name=a,path=/tmp,dirwidth=2,entries=$n"),
			`3: fileset "a": entries is "cvar(type=cvar-gamma)" ($n); must be a whole number from 0 to 1000000000`},
		{around("define fileset name=a,path=/tmp,dirwidth=wide"),
			`2: fileset "a": dirwidth is "wide"; must be a whole number of at least 0, or a random variable`},
		{around("define fileset name=a,path=/tmp,dirwidth=1"), `2: fileset "a": dirwidth is "1"; must be at least 2, in the mean`},
		{"define process name=p,instances=1k { thread name=t,instances=65 { flowop aiowait name=a } }", `1: more than 65536 threads in all`},
		{around("define file name=a,path=/tmp,prealloc=101"), `2: file "a": prealloc is "101"; must be a whole number from 0 to 100`},
		{around("define file name=a,path=/tmp,reuse=yes"), `2: file "a": reuse is "yes"; must be true, false, 1 or 0`},
		{around("define file name=a/b,path=/tmp"), `2: file "a/b": name is "a/b"; must be a word without / or blanks`},
		{around("define file name=..,path=/tmp"), `2: file "..": name is ".."; must be a word without / or blanks`},
		{around("define file name=5,path=/tmp"), `2: file: name is "5"; must be a text`},
		{around("define file name=a,path=/tmp,size=-5"),
			`2: file "a": size is "-5"; must be a whole number of at least 0, or a random variable`},
		{inLoop("flowop openfile name=o,filesetname=some,fd=128"), `5: flowop "o": fd is "128"; must be a whole number from 0 to 127`},
		{inLoop("flowop openfile name=o,filesetname=some,fd=-1"), `5: flowop "o": fd is "-1"; must be a whole number from 0 to 127`},
		{inLoop("flowop writewholefile name=o,fd=1,srcfd=300"), `5: flowop "o": srcfd is "300"; must be a whole number from 0 to 127`},
		{"define process name=p,instances=0 { thread name=t { flowop aiowait name=a } }",
			`1: process "p": instances is "0"; must be a whole number from 1 to 65536`},
		{"define process name=p,nice=20 { thread name=t { flowop aiowait name=a } }",
			`1: process "p": nice is "20"; must be a whole number from -20 to 19`},
		{"define process name=p { thread name=t,ioprio=9 { flowop aiowait name=a } }",
			`1: thread "t": ioprio is "9"; must be a whole number from 0 to 8`},
		{"set $t=many\nrun $t", `2: run: many; must be seconds from 0 to 31536000`},
		{"sleep", `1: sleep: how many seconds is missing`},
		{"debug loud", `1: debug: "loud" is no level`},
		{"echo loud", `1: echo: "loud" is no text in quotes`},
		{around("eventgen rate=fast"), `2: eventgen: rate is "fast"; must be a whole number of at least 0, or a random variable`},

		// variables and numbers
		{"set x=1", `1: set: "x" is no variable`},
		{"set $x 1", `1: "1": "=" is expected`},
		{"set $x=", `1: the end of the file: a value is expected`},
		{"set $x=$y", `1: variable "$y": unknown; there is none`},
		{"set $xy=1\nset $x=$xx", `2: variable "$xx": unknown; nearest is "$xy"`},
		{"set $5=1", `1: "$5=1": not a variable's name`},
		{"set $(x=1", `1: "$(x=1": not a variable's name`},
		{"set $x=10q", `1: "10q": not a whole number with k, m or g`},
		{"set $x=9223372036854775808", `1: "9223372036854775808": too large a number`},
		{"set $x=9000000000g", `1: "9000000000g": too large a number`},
		{"set $x=-9000000000g", `1: "-9000000000g": too large a number`},
		{"set $x=-9223372036854775809", `1: "-9223372036854775809": too large a number`},
		{"set $x=9007199254740992k", `1: "9007199254740992k": too large a number`},
		{"set $x=4611686018427387904 * 4611686018427387904", `1: 4611686018427387904 * 4611686018427387904: not a number from 0 to 2^62`},
		{"set $x=1 - 2", `1: 1 - 2: not a number from 0 to 2^62`},
		{"set $x=1 / 0", `1: 1 / 0: not a number from 0 to 2^62`},
		{"set $x=a * 2", `1: a * 2: both must be numbers`},
		{`define file name="$x"`, `1: "$x": a variable in quotes is read in echo only`},

		// random variables
		{around("set $x=randvar(type=uniform)\ndefine file name=f,path=/,size=$x"), `2: randvar: mean is 0; must be above min, 0`},
		{around("set $x=randvar(min=5,mean=5)\ndefine file name=f,path=/,size=$x"), `2: randvar: mean is 5; must be above min, 5`},
		{around("set $x=randvar(randtable={{50,1,2},{49,3,4}})\ndefine file name=f,path=/,size=$x"),
			`2: randtable: the percents add up to 99; must be 100`},
		{around("set $x=randvar(randtable={{100,3,2}})\ndefine file name=f,path=/,size=$x"), `2: randtable: a row from 3 to 2`},
		{around("set $x=randvar(randtable={{100,a,2}})\ndefine file name=f,path=/,size=$x"),
			`2: randtable: "a"; must be a whole number of at least 0`},
		{"set $x=randvar(randtable={{100,1}})", `1: "}": "," is expected`},
		{around("set $x=cvar(type=cvar-gamma,parameters=mean:0)\ndefine file name=f,path=/,size=$x"),
			`2: cvar-gamma: mean is 0; must be above 0`},
		{around("set $x=cvar(type=cvar-gamma,parameters=mean:x)\ndefine file name=f,path=/,size=$x"),
			`2: cvar-gamma: mean is "x"; must be a number of at most 2^62`},
		{around("set $x=cvar(type=cvar-uniform,parameters=lower:5;upper:2)\ndefine file name=f,path=/,size=$x"),
			`2: cvar-uniform: lower, mode and upper must be in this order`},
		{around("set $x=cvar(type=cvar-uniform,min=5,max=2)\ndefine file name=f,path=/,size=$x"), `2: cvar: min 5 is above max 2`},
		{around("set $x=cvar(min=5)\ndefine file name=f,path=/,size=$x"), `2: cvar: type is missing`},

		// flowops of one's own making
		{"define flowop name=f,$set { flowop statfile name=s,filesetname=$set }\n" + inLoop("flowop f name=g"),
			`1: variable "$set": not given a value`},
		{"define flowop name=f,$set { flowop aiowait name=s }\n" + inLoop("flowop f name=g,$sit=some"),
			`6: flowop "g": variable "$sit": unknown; nearest is "$set"`},
		{inLoop("flowop aiowait name=g,$sit=some"), `5: flowop "g": "$sit": only a flowop of a ` + "`define flowop` takes variables"},
		{"define flowop name=f { flowop f name=again }", `1: flowop "f": unknown; nearest is "hog"`},

		// letters
		{"set $x=\"abc", `1: quote: not closed`},
		{"set $x=a%b", `1: "%": not a character of the language`},
		{"set $x=a\n\xff", `2: "�": not a character of the language`},
	} {
		_, err := Parse("x.f", []byte(c.source), nil)
		if err == nil {
			t.Errorf("%s\n  is taken; want %s", c.source, c.want)
		} else if got := err.Error(); got != "x.f:"+c.want {
			t.Errorf("%s\n  gives %s\n  want x.f:%s", c.source, got, c.want)
		} else if strings.Contains(got, "\n") {
			t.Errorf("more than one line: %q", got)
		}
	}
}

func TestBounds(t *testing.T) {
	doubling := "define flowop name=f0 { flowop aiowait name=a }\n"
	for i := range 30 {
		doubling += fmt.Sprintf("define flowop name=f%d { flowop f%d name=a flowop f%d name=b }\n", i+1, i, i)
	}
	nested := "define flowop name=f0 { flowop aiowait name=a }\n"
	for i := range 40 {
		nested += fmt.Sprintf("define flowop name=f%d { flowop f%d name=a }\n", i+1, i)
	}
	long := "set $x=\"" + strings.Repeat("a", 4000) + "\"\n"
	var locals []string
	for i := range 65 {
		locals = append(locals, fmt.Sprintf("$v%d", i))
	}
	for _, c := range []struct{ source, want string }{
		{strings.Repeat(" ", maxSource+1), "larger than 262144 bytes"},
		{"set $x=" + strings.Repeat("a", 300), "longer than 255 letters"},
		{"echo \"" + strings.Repeat("a", 5000) + "\"", "longer than 4096 letters"},
		{long + "echo \"" + strings.Repeat("$x", 20) + "\"", "more than 65536 bytes in all"},
		{long + strings.Repeat("echo \"$x\"\n", 20), "more than 65536 bytes in all"},
		{doubling + inLoop("flowop f30 name=x"), "more than 10000 flowops"},
		{nested + inLoop("flowop f40 name=x"), "deeper than 32"},
		{"set $x=randvar(randtable={" + strings.Repeat("{0,1,2},", 300) + "{100,1,2}})", "more than 200 rows"},
		{"define flowop name=f," + strings.Join(locals, ",") + " { flowop aiowait name=a }", "more than 64 variables"},
	} {
		if _, err := Parse("x.f", []byte(c.source), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s...: %v, want %q", c.source, err, c.want)
		}
	}
}

func TestOverrides(t *testing.T) {
	source := "set $n=10\nset $m=$n * 2\nset $size=16k\nset $sync=false\n" + around(
		"define fileset name=more,path=/tmp,dirwidth=20,entries=$m,size=$size,reuse=$sync") + "\nrun $n"
	p := mustParse(t, source, map[string]string{"n": "4k", "sync": "true", "size": "cvar(type=cvar-gamma,parameters=mean:8192)"})
	set := p.Filesets[1]
	if set.Entries != 8192 || p.Seconds != 4096 || !set.Reuse || set.Size.Mean() != 8192 {
		t.Errorf("%+v for %d s", set, p.Seconds)
	}
	if got := p.Variables["m"]; got != "8192" {
		t.Errorf("$m is %s", got)
	}
	for name, want := range map[string]string{
		"nn":   `x.f: variable to set "$nn": unknown; nearest is "$n"`,
		"seze": `x.f: variable to set "$seze": unknown; nearest is "$size"`,
	} {
		if _, err := Parse("x.f", []byte(source), map[string]string{name: "1"}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for text, want := range map[string]string{
		"many":              `x.f:2: many * 2: both must be numbers`,
		"cvar(type=x":       `x.f:1: override of $n: the end of the file: ")" is expected`,
		"cvar(type=x) more": `x.f:1: override of $n: "more": too much`,
	} {
		if _, err := Parse("x.f", []byte(source), map[string]string{"n": text}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestVariablesAreBoundLate(t *testing.T) {
	p := mustParse(t, "set $n=1\n"+around(`define fileset name=more,path=$d,dirwidth=20,entries=$n
set $copy=$n
set $n=2
set $d=/mnt`), nil)
	if set := p.Filesets[1]; set.Entries != 2 || set.Path != "/mnt" {
		t.Errorf("%+v", set)
	}
	if p.Variables["copy"] != "1" {
		t.Errorf("a copy is of the value at its line: %s", p.Variables["copy"])
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]int64{
		"7": 7, "08": 8, "2k": 2048, "3m": 3 << 20, "5g": 5 << 30, "44301m": 44301 << 20,
		"2 + 3": 5, "7 - 3": 4, "2k * 3": 6144, "7 / 2": 3,
	} {
		p := mustParse(t, "set $x="+text+"\n"+around("define file name=f,path=/,size=$x"), nil)
		if got := p.Filesets[1].Size.Int(nil); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]bool{"": true, "=true": true, "=false": false, "=1": true, "=0": false} {
		if got := firstFlowop(t, "flowop read name=r,iosize=1,random"+text).Random; got != want {
			t.Errorf("random%s is %v", text, got)
		}
	}
	for text, want := range map[string]int64{"": 0, ",prealloc": 100, ",prealloc=false": 0, ",prealloc=30": 30} {
		p := mustParse(t, around("define file name=f,path=/"+text), nil)
		if got := p.Filesets[1].PreallocPercent; got != want {
			t.Errorf("%q gives %d %%, want %d", text, got, want)
		}
	}
	for _, name := range []string{"$x", "$(x)", "${x}"} {
		p := mustParse(t, "set $x=/a-b/c.d # said\n"+around(`define file name=f,path=`+name), nil)
		if got := p.Filesets[1].Path; got != "/a-b/c.d" {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	p := mustParse(t, around(""), nil)
	set := p.Filesets[0]
	if set.Size.Int(nil) != 1024 || set.DirGamma != 1.5 || set.DirDepth != nil || set.PreallocPercent != 0 || set.Single {
		t.Errorf("%+v", set)
	}
	process := p.Processes[0]
	if thread := process.Threads[0]; process.Instances != 1 || thread.Instances != 1 || thread.IOPriority != 8 {
		t.Errorf("%+v %+v", process, thread)
	}
	if p.Quit != QuitTimeout || p.Seconds != 0 || p.Rate.Int(nil) != 0 {
		t.Errorf("%+v", p)
	}
	o := firstFlowop(t, "flowop fsync name=f")
	if o.HasFD || o.FD != 0 || o.Iterations.Int(nil) != 1 || o.HighWater != 1 || o.Index != nil || o.Fileset != nil {
		t.Errorf("%+v", o)
	}
}

func TestFlowopAttributes(t *testing.T) {
	o := firstFlowop(t, `flowop aiowrite name=w, filename=some, fd=3, srcfd=4, opennext, iosize=8k,
		workingset=1m, random, dsync=1, directio=true, noreadahead, iters=$n, value=5, highwater=6, blocking, indexed=7`)
	if o.Kind != AioWrite || o.Name != "w" || o.Fileset.Name != "some" || o.FD != 3 || !o.HasFD || o.SourceFD != 4 ||
		!o.HasSourceFD || !o.RotateFD || o.Size.Int(nil) != 8192 || o.WorkingSet != 1<<20 || !o.Random || !o.Sync ||
		!o.Direct || !o.NoReadAhead || o.Iterations.Int(nil) != 4 || o.Value.Int(nil) != 5 || o.HighWater != 6 ||
		!o.Blocking || o.Index.Int(nil) != 7 || o.Line != 5 {
		t.Errorf("%+v", o)
	}
}

func TestFilesetAttributes(t *testing.T) {
	p := mustParse(t, around(`define filesets name=f,path=/x,filesize=5,entries=6,leafdirs=7,dirwidth=8,dirgamma=0,
		dirdepthrv=3,prealloc=50,paralloc,reuse,trusttree,readonly,writeonly,cached=false`), nil)
	s := p.Filesets[1]
	if s.Name != "f" || s.Path != "/x" || s.Size.Int(nil) != 5 || s.Entries != 6 || s.LeafDirectories != 7 ||
		s.DirWidth.Int(nil) != 8 || s.DirGamma != 0 || s.DirDepth.Int(nil) != 3 || s.PreallocPercent != 50 || !s.Parallel ||
		!s.Reuse || !s.TrustTree || !s.ReadOnly || !s.WriteOnly || s.Line != 2 {
		t.Errorf("%+v", s)
	}
}

func TestProcessesAndThreads(t *testing.T) {
	p := mustParse(t, `set $n=3
define process name=a,instances=$n,nice=-5
{
  thread name=x,instances=2,memsize=10m,useism,ioprio=7 { flowop aiowait name=one flowop aiowait name=one }
  thread name=y { flowop aiowait name=one }
}
define processes name=b { thread name=x { flowop aiowait name=one } }`, nil)
	a, x := p.Processes[0], p.Processes[0].Threads[0]
	if len(p.Processes) != 2 || a.Instances != 3 || a.Nice != -5 || len(a.Threads) != 2 {
		t.Errorf("%+v", a)
	}
	if x.Instances != 2 || x.MemoryBytes != 10<<20 || x.IOPriority != 7 || len(x.Flowops) != 2 {
		t.Errorf("%+v", x)
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		lines   string
		seconds int64
	}{
		{"run 60", 60}, {"run", 0}, {"set $t=5\nrun $t", 5}, {"psrun", 0}, {"psrun -10", 0}, {"psrun 10", 0},
		{"psrun -10 60", 60}, {"psrun 10 61", 61}, {"sleep 5", 0}, {"create processes\nstats clear\nsleep 7\nstats snap", 7},
		{"create files\nsleep 7", 0}, {"create fileset", 0}, {"debug 1\nversion\nenable lathist\nlist fileset", 0},
		{"set mode nousestats\nusage \"$x is not looked up\"", 0}, {"eventgen rate=5", 0},
	} {
		source := strings.Replace(around("CUT"), "CUT", "", 1) + "\n" + c.lines
		if p := mustParse(t, source, nil); p.Seconds != c.seconds {
			t.Errorf("%s: %d s, want %d", c.lines, p.Seconds, c.seconds)
		}
	}
	if p := mustParse(t, around("eventgen rate = 5\nset mode quit firstdone"), nil); p.Rate.Int(nil) != 5 || p.Quit != QuitFirstDone {
		t.Errorf("%+v", p)
	}
	if p := mustParse(t, around("")+"\nrun 5\nquit\nset $what=ever", nil); p.Seconds != 5 {
		t.Errorf("%+v", p)
	}
}

func TestEcho(t *testing.T) {
	p := mustParse(t, "set $x=5\n"+around(`echo "x: $x, ${x}s, $y, \$x, $, 10$\n\"quoted\""
set $x=6
echo  "now $x"`), nil)
	if want := "x: 5, 5s, $y, $x, $, 10$\n\"quoted\""; p.Echo[0] != want || p.Echo[1] != "now 6" {
		t.Errorf("%q, want %q", p.Echo, want)
	}
}

func TestCompositesAreWrittenOut(t *testing.T) {
	p := mustParse(t, `set $n=7
define fileset name=a,path=/tmp,dirwidth=20
define fileset name=b,path=/tmp,dirwidth=20
define flowop name=inner, $set, $size=4k, iters=2 { flowop write name=w,filesetname=$set,iosize=$size,iters=$n }
define flowop name=outer, $which { flowop inner name=i, $set=$which, iters=3 flowop inner name=j, $set=$which, $size=$n }
define process name=p { thread name=t {
  flowop outer name=first, $which=a
  flowop outer name=second, iters=5, $which=b
} }`, nil)
	loop := p.Processes[0].Threads[0].Flowops
	first, second := loop[0], loop[1]
	if first.Kind != Composite || first.Iterations.Int(nil) != 1 || second.Iterations.Int(nil) != 5 || second.Line != 8 {
		t.Errorf("%+v %+v", first, second)
	}
	i, j := first.Inner[0], first.Inner[1]
	if i.Iterations.Int(nil) != 3 || j.Iterations.Int(nil) != 2 {
		t.Errorf("a use's iters comes before its definition's: %v, %v", i.Iterations, j.Iterations)
	}
	for _, c := range []struct {
		o    *Flowop
		set  string
		size int64
	}{{i.Inner[0], "a", 4096}, {j.Inner[0], "a", 7}, {second.Inner[0].Inner[0], "b", 4096}} {
		if c.o.Fileset.Name != c.set || c.o.Size.Int(nil) != c.size || c.o.Iterations.Int(nil) != 7 {
			t.Errorf("%+v, want on %s with %d", c.o, c.set, c.size)
		}
	}
}

func TestTargets(t *testing.T) {
	p := mustParse(t, `define process name=a { thread name=t { flowop block name=bed flowop sempost name=s,target=gate,value=1 } }
define process name=b { thread name=t { flowop semblock name=gate,value=2 flowop wakeup name=w,target=bed } }`, nil)
	if got := p.Processes[1].Threads[0].Flowops[1].Target; got != "bed" {
		t.Errorf("the target is %q", got)
	}
}

func TestMeanDepth(t *testing.T) {
	for _, c := range []struct {
		entries, leaves int64
		width           float64
		want            float64
	}{{10000, 0, 20, 3.0745}, {1000, 0, 20, 2.3059}, {1000, 0, 1e6, 0.5}, {500, 500, 10, 3}, {1, 0, 10, 0}, {100, 0, 1, 0}} {
		f := Fileset{Entries: c.entries, LeafDirectories: c.leaves, DirWidth: Fixed(c.width)}
		if got := f.MeanDepth(); got < c.want-1e-4 || got > c.want+1e-4 {
			t.Errorf("%d of %v: %v, want %v", c.entries, c.width, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"openfile", "opnefile", 2}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
	if got := nearest("b", []string{"c", "a"}); got != "a" {
		t.Errorf("of two as near, the first by the alphabet: %s", got)
	}
}
