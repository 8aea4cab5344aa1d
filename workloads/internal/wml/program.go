// SPDX-License-Identifier: GPL-3.0-or-later

// Package wml reads Filebench's workload model language: the words of version 1.5, and the older
// spellings that its own workloads still use. What is read, and what differs, is described in
// docs/reference/workloads.md.
package wml

import "math"

// Program is a workload file, checked, with all variables resolved.
type Program struct {
	File      string
	Variables map[string]string // as they stand at the file's end, as text
	Filesets  []*Fileset        // in the order of the file
	Processes []*Process        // in the order of the file
	Rate      Number            // of `eventgen`, events a second; 0: not limited
	Seconds   int64             // of the first `run` or `psrun`; 0: none stated
	Quit      Quit
	Echo      []string // what `echo` says, in the order of the file
}

// Quit says what else ends a run before its time is up.
type Quit string

// What `set mode quit` may say.
const (
	QuitTimeout   Quit = "timeout"   // when its time is up
	QuitFirstDone Quit = "firstdone" // when one thread has finished
	QuitAllDone   Quit = "alldone"   // when all threads have finished
)

// Fileset is a tree of files; a `define file` is one of a single file.
type Fileset struct {
	Name            string
	Path            string  // as stated; where a run lays files out is the runner's business
	Single          bool    // `define file`
	Entries         int64   // files
	LeafDirectories int64   // empty directories in addition to the files (`leafdirs`)
	Size            Number  // bytes of a file, drawn for each
	DirWidth        Number  // mean entries of a directory
	DirGamma        float64 // shape of depth and width, 1.5 by default; 0: not random
	DirDepth        *Number // `dirdepthrv`; spread of the depth about MeanDepth; nil: a gamma of shape DirGamma
	PreallocPercent int64   // chance that a file exists at the start
	Parallel        bool    // `paralloc`: laid out by several threads
	Reuse           bool    // a tree that is there is used again
	TrustTree       bool    // ... without a look at each file
	ReadOnly        bool
	WriteOnly       bool
	Line            int
}

// Process is a group of threads; all processes of a run share its filesets.
type Process struct {
	Name      string
	Instances int64
	Nice      int64
	Threads   []*Thread
	Line      int
}

// Thread runs its flowops in a loop.
type Thread struct {
	Name        string
	Instances   int64 // in each instance of its process
	MemoryBytes int64
	IOPriority  int64 // 0 (highest) to 7; 8: not set
	Flowops     []*Flowop
	Line        int
}

// Flowop is one operation of a thread's loop, or a group of them (Composite).
type Flowop struct {
	Kind        Kind
	Name        string
	Fileset     *Fileset // nil: works on FD, or on no file
	FD          int      // slot of the thread's open files, 0 to MaxFD
	SourceFD    int      // `srcfd`
	HasFD       bool     // `fd` is stated
	HasSourceFD bool     // `srcfd` is stated
	RotateFD    bool     // `opennext`
	Size        Number   // `iosize`, bytes; 0: not stated
	WorkingSet  int64    // `workingset`, bytes; 0: the whole file
	Random      bool
	Sync        bool // `dsync`
	Direct      bool // `directio`
	NoReadAhead bool
	Iterations  Number  // `iters`
	Value       Number  // of hog, delay, the limits, semblock and sempost
	HighWater   int64   // of semblock
	Blocking    bool    // of sempost
	Target      string  // name of a flowop (of any thread)
	Index       *Number // `indexed`: which file; nil: by rotation
	Inner       []*Flowop
	Line        int
}

// MaxFD is the highest number that `fd` and `srcfd` may name.
const MaxFD = 127

// Kind is a flowop's word.
type Kind string

// The flowops.
const (
	OpenFile       Kind = "openfile"
	CreateFile     Kind = "createfile"
	CloseFile      Kind = "closefile"
	DeleteFile     Kind = "deletefile"
	StatFile       Kind = "statfile"
	Read           Kind = "read"
	ReadWholeFile  Kind = "readwholefile"
	Write          Kind = "write"
	WriteWholeFile Kind = "writewholefile"
	AppendFile     Kind = "appendfile"
	AppendFileRand Kind = "appendfilerand"
	Fsync          Kind = "fsync"
	FsyncSet       Kind = "fsyncset"
	MakeDir        Kind = "makedir"
	RemoveDir      Kind = "removedir"
	ListDir        Kind = "listdir"
	AioWrite       Kind = "aiowrite"
	AioWait        Kind = "aiowait"
	Hog            Kind = "hog"
	Delay          Kind = "delay"
	Block          Kind = "block"
	Wakeup         Kind = "wakeup"
	SemBlock       Kind = "semblock"
	SemPost        Kind = "sempost"
	EventLimit     Kind = "eventlimit"
	OpsLimit       Kind = "opslimit"
	IopsLimit      Kind = "iopslimit"
	BwLimit        Kind = "bwlimit"
	FinishOnCount  Kind = "finishoncount"
	FinishOnBytes  Kind = "finishonbytes"
	Composite      Kind = "composite" // a `define flowop`: Inner, Iterations times
)

// MeanDepth is the mean depth of the fileset's files below its root, as Filebench has it:
// log(entries + leaf directories) / log(width). A tree that needs no more than one directory has a
// depth of at most 1.
func (f *Fileset) MeanDepth() float64 {
	things, width := float64(f.Entries+f.LeafDirectories), f.DirWidth.Mean()
	if things < 2 || width < 2 {
		return 0
	}
	return math.Log(things) / math.Log(width)
}
