// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Imported counts an strace's lines by their outcome.
type Imported struct {
	Operations    int
	Failed        int            // calls that failed, or did not return
	Outside       int            // calls on files outside of the root
	LeftOut       map[string]int // calls that a trace does not have, by name
	NotUnderstood int            // lines
	FirstBad      int            // the first of these
}

// String is one line for people.
func (i *Imported) String() string {
	text := fmt.Sprintf("%d operations; left out: %d calls that failed, %d on files outside of the root", i.Operations, i.Failed, i.Outside)
	for _, name := range slices.SortedFunc(maps.Keys(i.LeftOut), func(a, b string) int {
		return cmp.Or(i.LeftOut[b]-i.LeftOut[a], strings.Compare(a, b))
	}) {
		text += fmt.Sprintf(", %d %s", i.LeftOut[name], name)
	}
	if i.NotUnderstood > 0 {
		text += fmt.Sprintf("; %d lines not understood, the first is line %d", i.NotUnderstood, i.FirstBad)
	}
	return text
}

// ImportStrace makes a trace of what `strace -f -ttt -T` wrote: the calls on files below root, by
// their paths from there. A relative path is below root where the process's folder is not known.
func ImportStrace(in io.Reader, out io.Writer, root string) (*Imported, error) {
	i := &importer{
		Imported: Imported{LeftOut: map[string]int{}}, root: path.Clean(root),
		tasks: map[int64]*process{}, lanes: map[int64]int64{}, unfinished: map[int64]pending{}, files: map[string]*traced{},
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		if err := i.line(lines.Text()); err != nil {
			if i.NotUnderstood++; i.NotUnderstood == 1 {
				i.FirstBad = number
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	i.Operations = len(i.operations)
	return &i.Imported, i.write(out)
}

// process is what its threads share.
type process struct {
	folder      string // current one, empty where not known
	tasks       int
	descriptors map[int64]descriptor
}

type descriptor struct {
	*description
	closeOnExec bool
}

// description is an open file, shared by its duplicates.
type description struct {
	path     string // absolute
	folder   bool
	appends  bool
	sync     Call // what each write implies, with O_SYNC or O_DSYNC
	synced   bool
	position int64
	uses     int
}

// traced is a file that the trace has to do with, by its path.
type traced struct {
	there, gone bool  // at this line; neither: not known
	made        bool  // by the trace
	undecided   int   // operation that may turn out to open what was there; -1: none
	written     int64 // from 0 up to here
	declared    int64
}

type operation struct {
	timeNS, thread int64
	call           Call
	path           string
	rest           []any
}

// pending is a call of which the end is to come.
type pending struct {
	timeNS int64
	text   string
	done   bool // what it does is done
}

type importer struct {
	Imported
	root       string
	tasks      map[int64]*process
	lanes      map[int64]int64 // the trace's thread of each task that has made an operation
	free       []int64         // those whose task has ended: a make has thousands of tasks, few at a time
	unfinished map[int64]pending
	files      map[string]*traced
	operations []operation
}

func (i *importer) line(line string) error {
	task, timeNS, text, err := splitHead(line)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "+++ ") {
		i.exit(task, timeNS)
		return nil
	}
	if strings.HasPrefix(text, "--- ") { // a signal
		return nil
	}
	if begin, unfinished := strings.CutSuffix(text, straceUnfinished); unfinished {
		i.begin(task, pending{timeNS: timeNS, text: strings.TrimRight(begin, " ")})
		return nil
	}
	if resumed := straceResumed.FindStringSubmatch(text); resumed != nil {
		before, known := i.unfinished[task]
		if !known || !strings.HasPrefix(before.text, resumed[1]+"(") {
			return errNoStrace
		}
		delete(i.unfinished, task)
		if before.done {
			return nil
		}
		timeNS, text = before.timeNS, before.text+resumed[2]
	}
	call, err := parseCall(text)
	if err != nil {
		return err
	}
	call.task, call.timeNS = task, timeNS
	i.take(call)
	return nil
}

// begin keeps a call until its end. A close has freed its descriptor before its end is recorded,
// and another thread's open may have got it.
func (i *importer) begin(task int64, p pending) {
	if strings.HasPrefix(p.text, "close(") {
		if call, err := parseCall(p.text + ") = 0"); err == nil {
			call.task, call.timeNS = task, p.timeNS
			i.take(call)
			p.done = true
		}
	}
	i.unfinished[task] = p
}

// process returns a thread's process. A new thread's first call may be recorded before the end of
// the clone that made it.
func (i *importer) process(task int64) *process {
	if p := i.tasks[task]; p != nil {
		return p
	}
	for parent, before := range i.unfinished {
		if parent != task && strings.HasPrefix(before.text, "clone") && i.tasks[parent] != nil {
			return i.adopt(task, i.tasks[parent], strings.Contains(before.text, "CLONE_FILES"))
		}
	}
	p := &process{tasks: 1, descriptors: map[int64]descriptor{}}
	i.tasks[task] = p
	return p
}

// adopt makes a new thread of a process, or another process with the same files open.
func (i *importer) adopt(task int64, parent *process, shares bool) *process {
	child := parent
	if !shares {
		child = &process{folder: parent.folder, descriptors: maps.Clone(parent.descriptors)}
		for _, d := range child.descriptors {
			d.uses++
		}
	}
	child.tasks++
	i.tasks[task] = child
	return child
}

// exit closes what the last thread of a process leaves open.
func (i *importer) exit(task, timeNS int64) {
	defer i.leave(task)
	p := i.tasks[task]
	delete(i.tasks, task)
	delete(i.unfinished, task)
	if p == nil {
		return
	}
	if p.tasks--; p.tasks > 0 {
		return
	}
	for _, number := range slices.Sorted(maps.Keys(p.descriptors)) {
		i.drop(&straceCall{task: task, timeNS: timeNS}, p, number)
	}
}

// take follows a call, and keeps the operation that it is.
func (i *importer) take(call *straceCall) {
	p := i.process(call.task)
	handle, known := straceCalls[call.name]
	switch {
	case strings.HasPrefix(call.name, "exit"): // its end is a separate line
	case call.result < 0:
		i.Failed++
	case !known:
		i.LeftOut[call.name]++
	default:
		handle(i, call, p)
	}
}

func (i *importer) write(out io.Writer) error {
	w := NewWriter(out, "imported from an strace; paths from "+strconv.Quote(i.root))
	for _, name := range slices.Sorted(maps.Keys(i.files)) {
		if bytes := i.files[name].declared; bytes > 0 {
			w.File(name, bytes)
		}
	}
	slices.SortStableFunc(i.operations, func(a, b operation) int { return cmp.Compare(a.timeNS, b.timeNS) })
	for _, o := range i.operations {
		w.Operation(o.timeNS-i.operations[0].timeNS, o.thread, o.call, o.path, o.rest...)
	}
	return w.Flush()
}

func (i *importer) keep(call *straceCall, what Call, path string, rest ...any) {
	i.operations = append(i.operations, operation{call.timeNS, i.lane(call.task), what, path, rest})
}

func (i *importer) lane(task int64) int64 {
	lane, known := i.lanes[task]
	switch last := len(i.free) - 1; {
	case known:
		return lane
	case last >= 0:
		lane, i.free = i.free[last], i.free[:last]
	default:
		lane = int64(len(i.lanes))
	}
	i.lanes[task] = lane
	return lane
}

func (i *importer) leave(task int64) {
	if lane, known := i.lanes[task]; known {
		delete(i.lanes, task)
		i.free = append(i.free, lane)
	}
}

// below returns an absolute path from the root.
func (i *importer) below(absolute string) (string, bool) {
	rest, found := strings.CutPrefix(absolute, i.root)
	if !found || (i.root != "/" && !strings.HasPrefix(rest, "/")) {
		return "", false
	}
	rest = strings.TrimPrefix(rest, "/")
	return rest, rest != "" && fs.ValidPath(rest)
}

func (i *importer) file(path string) *traced {
	if i.files[path] == nil {
		i.files[path] = &traced{undecided: -1}
	}
	return i.files[path]
}

// resolve returns the absolute path of an argument, relative to the folder of a descriptor argument
// (-1: the current one).
func (i *importer) resolve(call *straceCall, p *process, folder, argument int) (string, bool) {
	name, ok := call.path(argument)
	if !ok || name == "" {
		return "", false
	}
	if path.IsAbs(name) {
		return path.Clean(name), true
	}
	from := p.folder
	if folder >= 0 && !strings.HasPrefix(call.argument(folder), "AT_FDCWD") {
		number, _ := call.number(folder)
		d, known := p.descriptors[number]
		if !known {
			return "", false
		}
		from = d.path
	}
	if from == "" {
		from = i.root
	}
	return path.Join(from, name), true
}

// named returns the path of an argument from the root; outside of it, the call is left out.
func (i *importer) named(call *straceCall, p *process, folder, argument int) (string, bool) {
	absolute, ok := i.resolve(call, p, folder, argument)
	if ok {
		absolute, ok = i.below(absolute)
	}
	if !ok {
		i.Outside++
	}
	return absolute, ok
}

var statSize = regexp.MustCompile(`stx?_size=(\d+)`)

// learnSize takes what a stat reported of a file that was there before.
func (i *importer) learnSize(call *straceCall, name string) {
	found := statSize.FindStringSubmatch(strings.Join(call.arguments, ","))
	f := i.file(name)
	if found == nil || f.written > 0 || (f.made && f.undecided < 0) {
		return
	}
	if size, err := strconv.ParseInt(found[1], 10, 64); err == nil && size > 0 {
		i.wasThere(f)
		f.declared = max(f.declared, size)
	}
}

// wasThere decides that a file which an O_CREAT opened was there before.
func (i *importer) wasThere(f *traced) {
	if f.undecided >= 0 {
		i.operations[f.undecided].call = Open
		f.undecided, f.made = -1, false
	}
}
