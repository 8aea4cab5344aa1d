// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"joulerig/workloads/internal/filesys"
)

// one is a workload of one thread that does its flowops, then ends.
func one(flowops string) string {
	return `
set mode quit firstdone
define fileset name=set,path=/x,size=1000,entries=20,dirwidth=5,leafdirs=4,prealloc=50
define fileset name=full,path=/x,size=1000,entries=5,dirwidth=5,prealloc=100
define fileset name=ro,path=/x,size=10,entries=1,dirwidth=5,prealloc=100,readonly
define process name=p { thread name=t {
` + flowops + `
flowop finishoncount name=end,value=0
} }`
}

func TestWhatEachFlowopCounts(t *testing.T) {
	for _, c := range []struct {
		name, flowops string
		ops           map[string]int64
		read, written int64
	}{
		{"open, close", `flowop openfile name=a,filesetname=full,fd=1
			flowop closefile name=b,fd=1`, map[string]int64{"open": 1, "close": 1}, 0, 0},
		{"create", `flowop createfile name=a,filesetname=set,fd=1`, map[string]int64{"create": 1}, 0, 0},
		{"read whole, in pieces", `flowop readwholefile name=a,filesetname=full,iosize=300`,
			map[string]int64{"open": 1, "read": 1}, 1000, 0},
		{"read whole, again and again", `flowop readwholefile name=a,filesetname=full,iters=3`,
			map[string]int64{"open": 1, "read": 3}, 3000, 0},
		{"read whole, at once", `flowop readwholefile name=a,filesetname=full`,
			map[string]int64{"open": 1, "read": 1}, 1000, 0},
		{"read on, to the end and from the start", `flowop read name=a,filesetname=full,iosize=400,iters=5`,
			map[string]int64{"open": 1, "read": 5}, 400 + 400 + 200 + 0 + 400, 0},
		{"random read", `flowop read name=a,filesetname=full,iosize=100,random,iters=30`,
			map[string]int64{"open": 1, "read": 30}, 3000, 0},
		{"random write", `flowop write name=a,filesetname=full,iosize=100,random,iters=30`,
			map[string]int64{"open": 1, "write": 30}, 0, 3000},
		{"write on", `flowop write name=a,filesetname=full,iosize=700,iters=3`,
			map[string]int64{"open": 1, "write": 3}, 0, 2100},
		{"write whole", `flowop openfile name=a,filesetname=full,fd=1
			flowop createfile name=b,filesetname=set,fd=2
			flowop writewholefile name=c,fd=2,srcfd=1,iosize=300`,
			map[string]int64{"open": 1, "create": 1, "write": 1}, 0, 1000},
		{"write whole, as much as a smaller source has", `flowop openfile name=a,filesetname=ro,fd=1
			flowop createfile name=b,filesetname=set,fd=2
			flowop writewholefile name=c,fd=2,srcfd=1`,
			map[string]int64{"open": 1, "create": 1, "write": 1}, 0, 10},
		{"append", `flowop appendfile name=a,filesetname=full,iosize=5k,iters=2`,
			map[string]int64{"open": 1, "append": 2}, 0, 10240},
		{"append of less than a byte is an operation", `flowop appendfilerand name=a,filesetname=full,iosize=1,iters=7`,
			map[string]int64{"append": 7}, 0, 0},
		{"fsync of a set's open files", `flowop openfile name=a,filesetname=full,fd=1
			flowop openfile name=b,filesetname=full,fd=2
			flowop openfile name=c,filesetname=set,fd=3
			flowop fsyncset name=d,filesetname=full
			flowop fsync name=e,fd=3`, map[string]int64{"open": 3, "fsync": 3}, 0, 0},
		{"delete by rotation", `flowop deletefile name=a,filesetname=full,iters=5`, map[string]int64{"delete": 5}, 0, 0},
		{"delete of what was closed", `flowop openfile name=a,filesetname=full,fd=1
			flowop closefile name=b,fd=1
			flowop deletefile name=c,filesetname=full,fd=1`,
			map[string]int64{"open": 1, "close": 1, "delete": 1}, 0, 0},
		{"delete of what is open, and close", `flowop openfile name=a,filesetname=full,fd=1
			flowop deletefile name=c,filesetname=full,fd=1
			flowop closefile name=b,fd=1`,
			map[string]int64{"open": 1, "close": 1, "delete": 1}, 0, 0},
		{"stat", `flowop statfile name=a,filesetname=full,iters=3
			flowop openfile name=b,filesetname=full,fd=1
			flowop statfile name=c,filesetname=full,fd=1`, map[string]int64{"stat": 4, "open": 1}, 0, 0},
		{"directories", `flowop makedir name=a,filesetname=set
			flowop removedir name=b,filesetname=set,iters=2
			flowop listdir name=c,filesetname=set,iters=3`, map[string]int64{"mkdir": 1, "rmdir": 2, "list": 3}, 0, 0},
		{"asynchronous writes", `flowop aiowrite name=a,filesetname=full,iosize=100,random,iters=20
			flowop aiowait name=b`, map[string]int64{"open": 1, "aiowrite": 20, "aiowait": 1}, 0, 2000},
		{"asynchronous writes to what was deleted", `flowop openfile name=a,filesetname=full,fd=1
			flowop deletefile name=b,fd=1
			flowop aiowrite name=c,fd=1,iosize=100,workingset=1000,random
			flowop closefile name=d,fd=1`, map[string]int64{"open": 1, "delete": 1, "aiowrite": 1, "close": 1}, 0, 100},
		{"what steers a thread counts as nothing", `flowop hog name=a,value=10
			flowop sempost name=b,target=c,value=2
			flowop semblock name=c,value=2,highwater=9
			flowop eventlimit name=d
			flowop delay name=e,value=0`, map[string]int64{}, 0, 0},
		{"opennext takes the next file and the next descriptor", `flowop read name=a,filesetname=full,opennext,iosize=10,iters=5`,
			map[string]int64{"open": 5, "read": 5}, 50, 0},
		{"indexed", `flowop openfile name=a,filesetname=full,fd=1,indexed=3
			flowop openfile name=b,filesetname=full,fd=2,indexed=8`, map[string]int64{"open": 2}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ops, r := done(t, temporary(t), one(c.flowops))
			expect(t, "operations", ops, c.ops)
			expect(t, "bytes read", r.ReadBytes, c.read)
			expect(t, "bytes written", r.WriteBytes, c.written)
		})
	}
}

func TestAFlowopThatCannotGoOnIsNamed(t *testing.T) {
	for _, c := range []struct{ name, flowops, says string }{
		{"open twice", `flowop openfile name=a,filesetname=full,fd=1
			flowop openfile name=b,filesetname=full,fd=1`, `test.f:8: flowop "b": descriptor 1 is open: expected it closed`},
		{"close of nothing", `flowop closefile name=a,fd=3`, `flowop "a": descriptor 3 is closed: expected it open`},
		{"fsync of nothing", `flowop fsync name=a,fd=3`, `flowop "a": descriptor 3 is closed: expected it open`},
		{"delete of nothing", `flowop deletefile name=a,fd=3`, `flowop "a": descriptor 3 is closed: expected it open`},
		{"stat of nothing", `flowop statfile name=a,fd=3`, `flowop "a": descriptor 3 is closed: expected it open`},
		{"read of nothing", `flowop read name=a,iosize=1,fd=3`, `flowop "a": descriptor 3 is closed: expected it open`},
		{"larger than the file", `flowop read name=a,filesetname=full,iosize=2k,random`,
			`flowop "a": iosize 2048 is larger than the file (1000 bytes)`},
		{"another set's file", `flowop openfile name=a,filesetname=full,fd=1
			flowop read name=b,filesetname=set,fd=1,iosize=10`,
			`flowop "b": descriptor 1 is of fileset full: expected set`},
		{"no source", `flowop createfile name=a,filesetname=set,fd=1
			flowop writewholefile name=b,fd=1,srcfd=2`, `flowop "b": srcfd 2: no file was opened there`},
		{"write to a file of a read-only set", `flowop write name=a,filesetname=ro,iosize=10`,
			`flowop "a": write ro/00000001/00000001: bad file descriptor`},
	} {
		if says, _ := failure(t, temporary(t), one(c.flowops)); !strings.Contains(says, c.says) {
			t.Errorf("%s: %s, expected %s", c.name, says, c.says)
		}
	}
}

func TestAnAppendedFileGrows(t *testing.T) {
	folder := t.TempDir()
	system, err := filesys.OpenKernel(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer system.Release()
	done(t, unsynced{system}, one(`flowop appendfile name=a,filesetname=full,iosize=5k,iters=2`))
	sizes := map[int64]int{}
	err = filepath.WalkDir(filepath.Join(folder, "full"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			info, err := entry.Info()
			if err == nil {
				sizes[info.Size()]++
			}
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "files by size", sizes, map[int64]int{1000: 4, 1000 + 2*5120: 1})
}
