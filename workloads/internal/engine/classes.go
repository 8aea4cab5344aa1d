// SPDX-License-Identifier: GPL-3.0-or-later

package engine

import (
	"joulerig/workloads/internal/measure"
	"joulerig/workloads/internal/wml"
)

var openClass = measure.Class{Name: "open", Kind: measure.Other}

// counted are the flowops that count as operations, as in Filebench, with their classes. The others
// steer a thread: hog, delay, semaphores, limits.
var counted = map[wml.Kind]measure.Class{
	wml.OpenFile:       openClass,
	wml.CreateFile:     {Name: "create", Kind: measure.Other},
	wml.CloseFile:      {Name: "close", Kind: measure.Other},
	wml.DeleteFile:     {Name: "delete", Kind: measure.Other},
	wml.StatFile:       {Name: "stat", Kind: measure.Other},
	wml.Read:           {Name: "read", Kind: measure.Read},
	wml.ReadWholeFile:  {Name: "read", Kind: measure.Read},
	wml.Write:          {Name: "write", Kind: measure.Write},
	wml.WriteWholeFile: {Name: "write", Kind: measure.Write},
	wml.AppendFile:     {Name: "append", Kind: measure.Write},
	wml.AppendFileRand: {Name: "append", Kind: measure.Write},
	wml.AioWrite:       {Name: "aiowrite", Kind: measure.Write},
	wml.AioWait:        {Name: "aiowait", Kind: measure.Other},
	wml.Fsync:          {Name: "fsync", Kind: measure.Sync},
	wml.FsyncSet:       {Name: "fsync", Kind: measure.Sync},
	wml.MakeDir:        {Name: "mkdir", Kind: measure.Other},
	wml.RemoveDir:      {Name: "rmdir", Kind: measure.Other},
	wml.ListDir:        {Name: "list", Kind: measure.Other},
}

// opensItself reports whether a flowop opens its file where its descriptor is closed.
func opensItself(f *wml.Flowop) bool {
	if f.Fileset == nil {
		return false
	}
	kind := counted[f.Kind].Kind
	return kind == measure.Read || kind == measure.Write
}

// classes numbers the classes that a program has.
type classes struct {
	list   []measure.Class
	number map[string]int
}

func classesOf(program *wml.Program) *classes {
	c := &classes{number: map[string]int{}}
	eachFlowop(program, func(f *wml.Flowop) {
		if opensItself(f) {
			c.add(openClass)
		}
		if class, ok := counted[f.Kind]; ok {
			c.add(class)
		}
	})
	return c
}

func (c *classes) add(class measure.Class) {
	if _, known := c.number[class.Name]; !known {
		c.number[class.Name] = len(c.list)
		c.list = append(c.list, class)
	}
}
