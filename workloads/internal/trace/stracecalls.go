// SPDX-License-Identifier: GPL-3.0-or-later

package trace

import (
	"maps"
	"path"
	"slices"
)

type handler func(i *importer, call *straceCall, p *process)

// straceCalls are the calls that a trace has, or that show what a descriptor is.
var straceCalls = map[string]handler{
	"open":   func(i *importer, c *straceCall, p *process) { i.open(c, p, -1, 0) },
	"openat": func(i *importer, c *straceCall, p *process) { i.open(c, p, 0, 1) },
	"creat": func(i *importer, c *straceCall, p *process) {
		c.arguments = append(c.arguments, "O_WRONLY|O_CREAT|O_TRUNC")
		i.open(c, p, -1, 0)
	},
	"close":      func(i *importer, c *straceCall, p *process) { n, _ := c.number(0); i.drop(c, p, n) },
	"read":       func(i *importer, c *straceCall, p *process) { i.read(c, p, -1) },
	"readv":      func(i *importer, c *straceCall, p *process) { i.read(c, p, -1) },
	"pread64":    func(i *importer, c *straceCall, p *process) { i.read(c, p, 3) },
	"preadv":     func(i *importer, c *straceCall, p *process) { i.read(c, p, 3) },
	"preadv2":    func(i *importer, c *straceCall, p *process) { i.read(c, p, 3) },
	"write":      func(i *importer, c *straceCall, p *process) { i.writes(c, p, -1) },
	"writev":     func(i *importer, c *straceCall, p *process) { i.writes(c, p, -1) },
	"pwrite64":   func(i *importer, c *straceCall, p *process) { i.writes(c, p, 3) },
	"pwritev":    func(i *importer, c *straceCall, p *process) { i.writes(c, p, 3) },
	"pwritev2":   func(i *importer, c *straceCall, p *process) { i.writes(c, p, 3) },
	"lseek":      (*importer).seek,
	"fsync":      func(i *importer, c *straceCall, p *process) { i.synced(c, p, Fsync) },
	"fdatasync":  func(i *importer, c *straceCall, p *process) { i.synced(c, p, Fdatasync) },
	"dup":        (*importer).duplicate,
	"dup2":       (*importer).duplicate,
	"dup3":       (*importer).duplicate,
	"fcntl":      (*importer).control,
	"unlink":     func(i *importer, c *straceCall, p *process) { i.unlink(c, p, -1, 0) },
	"unlinkat":   func(i *importer, c *straceCall, p *process) { i.unlink(c, p, 0, 1) },
	"rename":     func(i *importer, c *straceCall, p *process) { i.rename(c, p, -1, 0, -1, 1) },
	"renameat":   func(i *importer, c *straceCall, p *process) { i.rename(c, p, 0, 1, 2, 3) },
	"renameat2":  func(i *importer, c *straceCall, p *process) { i.rename(c, p, 0, 1, 2, 3) },
	"stat":       func(i *importer, c *straceCall, p *process) { i.stat(c, p, -1, 0) },
	"lstat":      func(i *importer, c *straceCall, p *process) { i.stat(c, p, -1, 0) },
	"newfstatat": func(i *importer, c *straceCall, p *process) { i.stat(c, p, 0, 1) },
	"statx":      func(i *importer, c *straceCall, p *process) { i.stat(c, p, 0, 1) },
	"fstat":      (*importer).fstat,
	"truncate":   (*importer).truncate,
	"ftruncate":  (*importer).ftruncate,
	"chdir":      func(i *importer, c *straceCall, p *process) { p.folder, _ = i.resolve(c, p, -1, 0) },
	"fchdir":     (*importer).changeFolder,
	"clone":      (*importer).clone,
	"clone3":     (*importer).clone,
	"fork":       (*importer).clone,
	"vfork":      (*importer).clone,
	"execve":     (*importer).execute,
}

func (i *importer) open(c *straceCall, p *process, folder, argument int) {
	absolute, ok := i.resolve(c, p, folder, argument)
	if !ok || c.has("O_TMPFILE") {
		i.Outside++
		return
	}
	d := &description{path: absolute, folder: c.has("O_DIRECTORY"), appends: c.has("O_APPEND"), uses: 1}
	switch {
	case c.has("O_DSYNC"):
		d.sync, d.synced = Fdatasync, true
	case c.has("O_SYNC"):
		d.sync, d.synced = Fsync, true
	}
	p.descriptors[c.result] = descriptor{d, c.has("O_CLOEXEC")}
	name, inside := i.below(absolute)
	if !inside {
		i.Outside++
		return
	}
	if d.folder {
		i.keep(c, Open, name+"/")
		return
	}
	i.keep(c, i.opening(c, name), name)
}

// opening decides whether an open makes its file. With O_CREAT alone that may show later: what is
// read but was not written was there.
func (i *importer) opening(c *straceCall, name string) Call {
	f := i.file(name)
	switch {
	case c.has("O_TRUNC") || c.has("O_EXCL") || f.gone:
		*f = traced{there: true, made: true, undecided: -1, declared: f.declared}
		return Create
	case c.has("O_CREAT") && !f.there:
		f.there, f.made, f.undecided = true, true, len(i.operations)
		return Create
	}
	f.there = true
	return Open
}

// drop takes a descriptor from a process; the last one of a file closes it.
func (i *importer) drop(c *straceCall, p *process, number int64) {
	d, known := p.descriptors[number]
	if !known {
		return
	}
	delete(p.descriptors, number)
	if d.uses--; d.uses > 0 {
		return
	}
	if name, inside := i.traceName(d.description); inside {
		i.keep(c, Close, name)
	}
}

func (i *importer) traceName(d *description) (string, bool) {
	name, inside := i.below(d.path)
	if d.folder {
		name += "/"
	}
	return name, inside
}

// opened returns the open file of a call's first argument, and its name; elsewhere, the call is
// left out.
func (i *importer) opened(c *straceCall, p *process) (*description, string, bool) {
	number, _ := c.number(0)
	if d, known := p.descriptors[number]; known {
		if name, inside := i.traceName(d.description); inside {
			return d.description, name, true
		}
	}
	i.Outside++
	return nil, "", false
}

// transfer gives where a read or write began: at its offset argument, or the descriptor's position,
// which goes on.
func transfer(c *straceCall, d *description, argument int) int64 {
	if offset, given := c.number(argument); given && offset >= 0 {
		return offset
	}
	d.position += c.result
	return d.position - c.result
}

func (i *importer) read(c *straceCall, p *process, argument int) {
	d, name, ok := i.opened(c, p)
	if !ok {
		return
	}
	offset := transfer(c, d, argument)
	if f := i.file(name); c.result > 0 && offset+c.result > f.written {
		i.wasThere(f)
	}
	for at := int64(0); at == 0 || at < c.result; at += MaxBytes {
		i.keep(c, Read, name, offset+at, min(c.result-at, MaxBytes))
	}
}

func (i *importer) writes(c *straceCall, p *process, argument int) {
	d, name, ok := i.opened(c, p)
	if !ok {
		return
	}
	offset := transfer(c, d, argument)
	if f := i.file(name); !d.appends && offset <= f.written {
		f.written = max(f.written, offset+c.result)
	}
	for at := int64(0); at == 0 || at < c.result; at += MaxBytes {
		if d.appends {
			i.keep(c, Append, name, min(c.result-at, MaxBytes))
		} else {
			i.keep(c, Write, name, offset+at, min(c.result-at, MaxBytes))
		}
	}
	if d.synced {
		after := *c
		after.timeNS += c.tookNS
		i.keep(&after, d.sync, name)
	}
}

func (i *importer) seek(c *straceCall, p *process) {
	number, _ := c.number(0)
	if d, known := p.descriptors[number]; known {
		d.position = c.result
	}
}

func (i *importer) synced(c *straceCall, p *process, what Call) {
	if _, name, ok := i.opened(c, p); ok {
		i.keep(c, what, name)
	}
}

func (i *importer) duplicate(c *straceCall, p *process) {
	number, _ := c.number(0)
	if number == c.result {
		return
	}
	i.drop(c, p, c.result)
	if d, known := p.descriptors[number]; known {
		d.uses++
		p.descriptors[c.result] = descriptor{d.description, c.has("O_CLOEXEC") || c.has("F_DUPFD_CLOEXEC")}
	}
}

func (i *importer) control(c *straceCall, p *process) {
	if c.has("F_DUPFD") {
		i.duplicate(c, p)
	}
}

// taken says whether a name may be used: one that the trace removed was made again by an untraced
// process.
func (i *importer) taken(c *straceCall, name string) bool {
	f := i.file(name)
	if f.gone {
		i.LeftOut[c.name+" of a file that others made"]++
		return false
	}
	f.there = true
	return true
}

func (i *importer) unlink(c *straceCall, p *process, folder, argument int) {
	if c.has("AT_REMOVEDIR") {
		i.LeftOut["rmdir"]++
		return
	}
	name, ok := i.named(c, p, folder, argument)
	if ok && i.taken(c, name) {
		i.keep(c, Unlink, name)
		*i.file(name) = traced{gone: true, undecided: -1, declared: i.file(name).declared}
	}
}

func (i *importer) rename(c *straceCall, p *process, folder, argument, toFolder, toArgument int) {
	from, ok := i.resolve(c, p, folder, argument)
	to, toOK := i.resolve(c, p, toFolder, toArgument)
	name, inside := i.below(from)
	toName, toInside := i.below(to)
	switch {
	case !ok || !toOK || !inside || !toInside:
		i.Outside++
		return
	case c.has("RENAME_EXCHANGE") || c.has("RENAME_WHITEOUT") || i.isFolder(name):
		i.LeftOut[c.name+" of a folder, or with flags"]++
		return
	case name == toName || !i.taken(c, name):
		return
	}
	i.keep(c, Rename, name, toName)
	moved := i.file(name)
	*i.file(toName) = traced{there: true, made: moved.made, undecided: -1, written: moved.written, declared: i.file(toName).declared}
	*moved = traced{gone: true, undecided: -1, declared: moved.declared}
	for _, process := range i.tasks {
		for _, d := range process.descriptors {
			if d.path == from {
				d.path = to
			}
		}
	}
}

// isFolder: some file of the trace lies below it.
func (i *importer) isFolder(name string) bool {
	for file := range i.files {
		for above := path.Dir(file); above != "."; above = path.Dir(above) {
			if above == name {
				return true
			}
		}
	}
	return false
}

func (i *importer) stat(c *straceCall, p *process, folder, argument int) {
	if c.argument(argument) == `""` {
		i.fstat(c, p)
		return
	}
	name, ok := i.named(c, p, folder, argument)
	if !ok {
		return
	}
	if c.has("S_IFDIR") {
		i.keep(c, Stat, name+"/")
		return
	}
	if i.taken(c, name) {
		i.learnSize(c, name)
		i.keep(c, Stat, name)
	}
}

// fstat is no operation of a trace: it never leaves the kernel's memory.
func (i *importer) fstat(c *straceCall, p *process) {
	d, name, ok := i.opened(c, p)
	if !ok {
		return
	}
	i.LeftOut["fstat"]++
	if !d.folder {
		i.learnSize(c, name)
	}
}

func (i *importer) truncate(c *straceCall, p *process) {
	name, ok := i.named(c, p, -1, 0)
	if ok && i.taken(c, name) {
		i.shorten(c, name)
	}
}

func (i *importer) ftruncate(c *straceCall, p *process) {
	if _, name, ok := i.opened(c, p); ok {
		i.shorten(c, name)
	}
}

func (i *importer) shorten(c *straceCall, name string) {
	bytes, ok := c.number(1)
	if !ok || bytes < 0 {
		i.LeftOut[c.name+" without a size"]++
		return
	}
	i.keep(c, Truncate, name, bytes)
	f := i.file(name)
	f.written = min(f.written, bytes)
}

func (i *importer) changeFolder(c *straceCall, p *process) {
	number, _ := c.number(0)
	p.folder = "" // not known where the descriptor is not
	if d, known := p.descriptors[number]; known {
		p.folder = d.path
	}
}

// clone: the child's first call may have been recorded before.
func (i *importer) clone(c *straceCall, p *process) {
	if i.tasks[c.result] == nil && c.result > 0 {
		i.adopt(c.result, p, c.has("CLONE_FILES"))
	}
}

func (i *importer) execute(c *straceCall, p *process) {
	for _, number := range slices.Sorted(maps.Keys(p.descriptors)) {
		if p.descriptors[number].closeOnExec {
			i.drop(c, p, number)
		}
	}
}
