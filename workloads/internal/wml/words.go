// SPDX-License-Identifier: GPL-3.0-or-later

package wml

import (
	"maps"
	"slices"
	"strings"
)

// What each thing may state; a word after a colon is another spelling's meaning.
var (
	fileAttributes = attributeNames("name", "path", "size", "filesize:size", "prealloc", "paralloc", "reuse",
		"trusttree", "readonly", "writeonly", "cached")
	filesetAttributes = merged(fileAttributes, attributeNames("entries", "dirwidth", "dirdepthrv", "dirgamma", "leafdirs"))
	processAttributes = attributeNames("name", "instances", "nice")
	threadAttributes  = attributeNames("name", "memsize", "useism", "instances", "ioprio")
	flowopAttributes  = attributeNames("name", "filesetname", "filename:filesetname", "fd", "srcfd", "opennext", "iosize",
		"workingset", "random", "dsync", "directio", "noreadahead", "iters", "value", "highwater", "blocking", "target",
		"indexed")
	useAttributes     = attributeNames("name", "iters") // of a `define flowop` and of its use
	randvarAttributes = attributeNames("type", "seed", "randsrc", "gamma", "mean", "min", "round", "randtable")
	cvarAttributes    = attributeNames("type", "parameters", "min", "max", "round")
	rateAttributes    = attributeNames("rate")
)

// vocabulary maps what may be written to what it means.
type vocabulary map[string]string

func attributeNames(words ...string) vocabulary {
	names := vocabulary{}
	for _, word := range words {
		written, meaning, found := strings.Cut(word, ":")
		if !found {
			meaning = written
		}
		names[written] = meaning
	}
	return names
}

func merged(a, b vocabulary) vocabulary {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func (v vocabulary) words() []string { return slices.Sorted(maps.Keys(v)) }

// needs says what a flowop cannot be without.
type needs struct {
	fileset     bool // `filesetname`
	filesetOrFD bool
	attributes  []string
}

var flowops = map[Kind]needs{
	OpenFile:       {fileset: true},
	CreateFile:     {fileset: true},
	CloseFile:      {},
	DeleteFile:     {filesetOrFD: true},
	StatFile:       {filesetOrFD: true},
	Read:           {attributes: []string{"iosize"}},
	ReadWholeFile:  {},
	Write:          {attributes: []string{"iosize"}},
	WriteWholeFile: {},
	AppendFile:     {attributes: []string{"iosize"}},
	AppendFileRand: {attributes: []string{"iosize"}},
	Fsync:          {},
	FsyncSet:       {fileset: true},
	MakeDir:        {fileset: true},
	RemoveDir:      {fileset: true},
	ListDir:        {fileset: true},
	AioWrite:       {attributes: []string{"iosize"}},
	AioWait:        {},
	Hog:            {attributes: []string{"value"}},
	Delay:          {attributes: []string{"value"}},
	Block:          {},
	Wakeup:         {attributes: []string{"target"}},
	SemBlock:       {attributes: []string{"value"}},
	SemPost:        {attributes: []string{"target", "value"}},
	EventLimit:     {},
	OpsLimit:       {},
	IopsLimit:      {},
	BwLimit:        {},
	FinishOnCount:  {attributes: []string{"value"}},
	FinishOnBytes:  {attributes: []string{"value"}},
}

// refused are commands of Filebench that make no sense here.
var refused = map[string]string{
	"system":      "a workload runs no shell commands",
	"domultisync": "a workload runs on one host",
	"foreach":     "not in the language since version 1.5",
	"load":        "a workload is one file",
	"log":         "not in the language since version 1.5",
	"shutdown":    "not in the language since version 1.5",
}
