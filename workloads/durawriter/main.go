// SPDX-License-Identifier: GPL-3.0-or-later

// Command durawriter writes numbered, checksummed records to a drive or a file system and reports
// every acknowledgement to a witness before it goes on; after a power cut it reports what is there.
// See README.md in this folder.
package main

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"joulerig/workloads/internal/nbd"
	"joulerig/workloads/internal/sectortag"
)

const usage = `usage: durawriter write  --campaign HEX --generation N --witness WHERE TARGET [options]
       durawriter survey --campaign HEX TARGET [--generation N] [--region-bytes N]
TARGET: --nbd unix:PATH|tcp:HOST:PORT [--export NAME], --device-fd N, or --directory PATH
--application WORD, once for each word of its command: a program on --directory writes and checks
write:  --seed N, --region-bytes N, --slot-sectors N, --depth N (writes at once, on a drive)
`

const (
	exitTargetFailed = 1 // the target, or the witness, has gone: as after a power cut
	exitUsage        = 2
)

type settings struct {
	campaign             sectortag.Campaign
	generation           uint
	witness              string
	nbd, export          string
	deviceFD             int
	directory            string
	application          []string // a program's command, which writes instead; empty: none
	seed                 uint64
	regionBytes          int64
	slotSectors, atATime int
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if len(args) == 0 || (args[0] != "write" && args[0] != "survey") {
		fmt.Fprintf(stderr, "durawriter: %q: expected write or survey\n", args)
		return exitUsage
	}
	s, err := parse(args[0], args[1:])
	if err != nil {
		fmt.Fprintf(stderr, "durawriter: %v\n", err)
		return exitUsage
	}
	if args[0] == "survey" {
		err = s.survey(stdout)
	} else {
		err = s.write()
	}
	if err != nil && !errors.Is(err, errStop) {
		fmt.Fprintf(stderr, "durawriter: %v\n", err)
		return exitTargetFailed
	}
	return 0
}

func parse(command string, args []string) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	campaign := flags.String("campaign", "", "")
	flags.UintVar(&s.generation, "generation", 0, "")
	flags.StringVar(&s.nbd, "nbd", "", "")
	flags.StringVar(&s.export, "export", "", "")
	flags.IntVar(&s.deviceFD, "device-fd", -1, "")
	flags.StringVar(&s.directory, "directory", "", "")
	flags.Func("application", "", func(word string) error {
		s.application = append(s.application, word)
		return nil
	})
	flags.Int64Var(&s.regionBytes, "region-bytes", 4<<20, "")
	if command == "write" {
		flags.StringVar(&s.witness, "witness", "", "")
		flags.Uint64Var(&s.seed, "seed", 1, "")
		flags.IntVar(&s.slotSectors, "slot-sectors", 64, "")
		flags.IntVar(&s.atATime, "depth", 4, "")
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%q: unexpected argument", flags.Arg(0))
	}
	id, err := hex.DecodeString(*campaign)
	if err != nil || len(id) != len(s.campaign) {
		return nil, fmt.Errorf("--campaign: %q: expected %d hexadecimal digits", *campaign, 2*len(s.campaign))
	}
	s.campaign = sectortag.Campaign(id)
	return s, s.check(command)
}

func (s *settings) check(command string) error {
	targets := 0
	for _, given := range []bool{s.nbd != "", s.deviceFD >= 0, s.directory != ""} {
		if given {
			targets++
		}
	}
	if targets != 1 {
		return errors.New("expected exactly one of --nbd, --device-fd, --directory")
	}
	if len(s.application) > 0 && s.directory == "" {
		return errors.New("--application: expected --directory")
	}
	if s.generation > 1<<32-1 {
		return fmt.Errorf("--generation: %d: expected 32 bits", s.generation)
	}
	if s.regionBytes <= 0 || s.regionBytes%sectortag.SectorBytes != 0 {
		return fmt.Errorf("--region-bytes: %d: expected a positive multiple of %d", s.regionBytes, sectortag.SectorBytes)
	}
	if command == "survey" {
		return nil
	}
	if s.witness == "" {
		return errors.New("--witness: missing: expected tcp:HOST:PORT, unix:PATH or -")
	}
	if s.slotSectors < 1 || s.slotSectors > sectortag.MaxSectors {
		return fmt.Errorf("--slot-sectors: %d: expected 1 to %d", s.slotSectors, sectortag.MaxSectors)
	}
	slots := s.regionBytes / int64(s.slotSectors*sectortag.SectorBytes)
	if s.atATime < 1 || int64(s.atATime) > slots {
		return fmt.Errorf("--depth: %d: expected 1 to %d, the slots of the region", s.atATime, slots)
	}
	return nil
}

// open returns the drive of --nbd or --device-fd.
func (s *settings) open() (drive, error) {
	var d drive
	if s.nbd != "" {
		client, err := nbd.Dial(s.nbd, s.export)
		if err != nil {
			return nil, fmt.Errorf("--nbd: %w", err)
		}
		d = export{client}
	} else {
		opened, err := openDevice(s.deviceFD)
		if err != nil {
			return nil, err
		}
		d = opened
	}
	if d.Size() < s.regionBytes {
		return nil, fmt.Errorf("--region-bytes: %d: the drive has %d", s.regionBytes, d.Size())
	}
	block := int64(d.BlockBytes())
	if s.regionBytes%block != 0 {
		return nil, fmt.Errorf("--region-bytes: %d: expected a multiple of %d, the drive's block", s.regionBytes, block)
	}
	if slot := int64(s.slotSectors * sectortag.SectorBytes); slot%block != 0 {
		return nil, fmt.Errorf("--slot-sectors: %d: expected a multiple of %d, a block of the drive",
			s.slotSectors, block/sectortag.SectorBytes)
	}
	return d, nil
}

func (s *settings) survey(out io.Writer) error {
	surveyor := newSurveyor(s.campaign, out)
	if len(s.application) > 0 {
		return s.checkApplication(out)
	}
	if s.directory != "" {
		return surveyor.directory(s.directory, uint32(s.generation))
	}
	d, err := s.open()
	if err != nil {
		return err
	}
	return surveyor.drive(d, s.regionBytes)
}

// write loads the target until it fails, or the witness has enough.
func (s *settings) write() error {
	connection, err := dialWitness(s.witness)
	if err != nil {
		return err
	}
	defer connection.stream.Close()
	w := &writer{witness: connection, campaign: s.campaign, generation: uint32(s.generation)}
	if len(s.application) > 0 {
		return s.transact(w)
	}
	random := rand.New(rand.NewPCG(s.seed, uint64(s.generation)))
	if s.directory != "" {
		load, err := newDirectoryLoad(w, s.directory, random)
		for err == nil {
			err = load.step()
		}
		return err
	}
	d, err := s.open()
	if err != nil {
		return err
	}
	load := newDriveLoad(w, d, s.regionBytes, s.slotSectors, s.atATime, random)
	for err == nil {
		err = load.round()
	}
	return err
}
