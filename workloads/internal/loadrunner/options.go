// SPDX-License-Identifier: GPL-3.0-or-later

package loadrunner

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// Options are what every load takes.
type Options struct {
	Directory           string
	LayoutOnly, Keep    bool
	WithParent          bool
	Output, Intervals   string
	points, socket      string
	host, drive, runTag string
}

// NewFlags returns an empty set of flags that prints nothing by itself.
func NewFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// Register adds the options to a command's flags.
func (o *Options) Register(flags *flag.FlagSet) {
	flags.StringVar(&o.Directory, "directory", "", "")
	flags.BoolVar(&o.LayoutOnly, "layout-only", false, "")
	flags.BoolVar(&o.Keep, "keep", false, "")
	flags.BoolVar(&o.WithParent, "with-parent", false, "")
	flags.StringVar(&o.Output, "output", "", "")
	flags.StringVar(&o.Intervals, "intervals", "", "")
	flags.StringVar(&o.points, "points", "", "")
	flags.StringVar(&o.host, "host", "", "")
	flags.StringVar(&o.drive, "drive", "", "")
	flags.StringVar(&o.runTag, "run", "", "")
}

// Parse reads a command's arguments, flags and others in any order, and gives the others: as many
// as there are names for them.
func Parse(flags *flag.FlagSet, args []string, names ...string) ([]string, error) {
	var others []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			break
		}
		others, args = append(others, flags.Arg(0)), flags.Args()[1:]
	}
	if len(others) > len(names) {
		return nil, fmt.Errorf("%q: unexpected argument", others[len(names)])
	}
	if len(others) < len(names) {
		return nil, fmt.Errorf("%s: missing", names[len(others)])
	}
	return others, nil
}

// Check looks at the options after Parse.
func (o *Options) Check() error {
	if o.Directory == "" {
		return errors.New("--directory: missing")
	}
	if o.LayoutOnly && o.Keep {
		return errors.New("--layout-only, --keep: expected one of them at most")
	}
	if o.points == "" {
		return nil
	}
	path, found := strings.CutPrefix(o.points, "unix:")
	if !found || path == "" {
		return fmt.Errorf("--points: %q: expected unix:SOCKET", o.points)
	}
	o.socket = path
	if o.host == "" || o.drive == "" {
		return errors.New("--points: expected --host and --drive with it")
	}
	return nil
}
