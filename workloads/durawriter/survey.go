// SPDX-License-Identifier: GPL-3.0-or-later

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"joulerig/workloads/internal/sectortag"
)

const surveyChunk = 1 << 20

// surveyed is a file, or a drive's region, of a survey.
type surveyed struct {
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
	Error  string `json:"error,omitempty"` // why it could not be read
}

// extent is a run of sectors that are alike: of one write in its order, or of one state.
type extent struct {
	Target     string          `json:"target"`
	Offset     uint64          `json:"offset"`
	Sectors    int             `json:"sectors"`
	State      sectortag.State `json:"state"`
	Generation uint32          `json:"generation,omitempty"`
	Sequence   uint64          `json:"sequence,omitempty"`
	Index      uint16          `json:"index"`
	Of         uint16          `json:"of,omitempty"`     // sectors of the whole write
	CRC32C     uint32          `json:"crc32c,omitempty"` // of a sector whose content is not known otherwise
}

// surveyor prints what it finds, without an opinion of what should be there.
type surveyor struct {
	out      *json.Encoder
	buffer   *bufio.Writer
	campaign sectortag.Campaign
	run      extent
}

func newSurveyor(campaign sectortag.Campaign, out io.Writer) *surveyor {
	buffer := bufio.NewWriter(out)
	return &surveyor{out: json.NewEncoder(buffer), buffer: buffer, campaign: campaign}
}

// drive surveys the first bytes of a drive.
func (s *surveyor) drive(d drive, bytes int64) error {
	if err := s.out.Encode(surveyed{Bytes: bytes}); err != nil {
		return err
	}
	data := alignedBuffer(surveyChunk)
	for at := int64(0); at < bytes; at += surveyChunk {
		part := data[:min(surveyChunk, bytes-at)]
		if err := d.ReadAt(part, at); err != nil {
			return fmt.Errorf("read at %d: %w", at, err)
		}
		if err := s.sectors(part, "", "", uint64(at)); err != nil {
			return err
		}
	}
	return s.end()
}

// directory surveys the files of one generation's folder, in the order of their names.
func (s *surveyor) directory(directory string, generation uint32) error {
	path := generationFolder(directory, generation)
	entries, err := os.ReadDir(path)
	if err != nil && !os.IsNotExist(err) { // a folder that is gone has no files: that is an answer
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		found := surveyed{Target: name}
		content, err := readFile(filepath.Join(path, name))
		if err != nil {
			found.Error = err.Error()
		}
		found.Bytes = int64(len(content))
		if err := s.out.Encode(found); err != nil {
			return err
		}
		whole := len(content) / sectortag.SectorBytes * sectortag.SectorBytes
		if err := s.sectors(content[:whole], name, contentName(name), 0); err != nil {
			return err
		}
		if rest := content[whole:]; len(rest) > 0 {
			s.add(extent{
				Target: name, Offset: uint64(whole), Sectors: 1,
				State: sectortag.Foreign, CRC32C: sectortag.Checksum(rest),
			})
		}
		if err := s.end(); err != nil {
			return err
		}
	}
	return s.buffer.Flush()
}

func (s *surveyor) sectors(data []byte, target, content string, offset uint64) error {
	for at := 0; at < len(data); at += sectortag.SectorBytes {
		sector := data[at : at+sectortag.SectorBytes]
		place := sectortag.Place{Target: content, Offset: offset + uint64(at)}
		state, origin := sectortag.Read(sector, s.campaign, place)
		found := extent{
			Target: target, Offset: place.Offset, Sectors: 1, State: state,
			Generation: origin.Generation, Sequence: origin.Sequence, Index: origin.Index, Of: origin.Sectors,
		}
		if state == sectortag.Damaged || state == sectortag.Foreign {
			found.CRC32C = sectortag.Checksum(sector)
		}
		if err := s.add(found); err != nil {
			return err
		}
	}
	return nil
}

// add takes one sector: it continues the run, or begins another.
func (s *surveyor) add(sector extent) error {
	if s.run.Sectors > 0 {
		follows := sector
		follows.Offset, follows.Sectors, follows.Index = s.run.Offset, s.run.Sectors, s.run.Index
		step := uint16(0)
		if sector.State == sectortag.Written || sector.State == sectortag.Misplaced {
			step = uint16(s.run.Sectors)
		}
		if follows == s.run && sector.Index == s.run.Index+step {
			s.run.Sectors++
			return nil
		}
		if err := s.out.Encode(s.run); err != nil {
			return err
		}
	}
	s.run = sector
	return nil
}

func (s *surveyor) end() error {
	if s.run.Sectors > 0 {
		if err := s.out.Encode(s.run); err != nil {
			return err
		}
	}
	s.run = extent{}
	return s.buffer.Flush()
}
