// SPDX-License-Identifier: GPL-3.0-or-later

// Package sectortag tags each 512-byte sector that a power-cut campaign writes with the write it
// belongs to and with its position. A torn, lost, reordered or misplaced write then shows at the
// granularity at which drives tear. Whole sectors of one write are a record.
package sectortag

import (
	"encoding/binary"
	"hash/crc32"
)

// SectorBytes is the smallest unit that a drive writes.
const SectorBytes = 512

// MaxSectors is what the index of a sector within its record can count.
const MaxSectors = 1<<16 - 1

const (
	magic      = "JRSECT01"
	bodyBytes  = SectorBytes - 4 // the checksum takes the rest
	fieldBytes = 56
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C, as iSCSI has it (RFC 3720).
func Checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

// Campaign distinguishes the sectors of one campaign from all others.
type Campaign [16]byte

// Origin is the tag of one sector.
type Origin struct {
	Generation uint32 // power cut of the campaign that it was written for
	Sequence   uint64 // of the write within the generation
	Index      uint16 // of the sector within its write
	Sectors    uint16 // of the whole write
}

// Place is where a sector belongs.
type Place struct {
	Target string // file, or empty for a drive
	Offset uint64 // bytes from its start
}

// Fill writes one record into data, whole sectors, for the place of its first one.
func Fill(data []byte, campaign Campaign, generation uint32, sequence uint64, place Place) {
	sectors := len(data) / SectorBytes
	for i := range sectors {
		sector := data[i*SectorBytes : (i+1)*SectorBytes]
		origin := Origin{generation, sequence, uint16(i), uint16(sectors)}
		encode(sector, campaign, origin, Place{place.Target, place.Offset + uint64(i*SectorBytes)})
	}
}

func encode(sector []byte, campaign Campaign, origin Origin, place Place) {
	copy(sector, magic)
	copy(sector[8:24], campaign[:])
	binary.LittleEndian.PutUint32(sector[24:], Checksum([]byte(place.Target)))
	binary.LittleEndian.PutUint32(sector[28:], origin.Generation)
	binary.LittleEndian.PutUint64(sector[32:], origin.Sequence)
	binary.LittleEndian.PutUint64(sector[40:], place.Offset)
	binary.LittleEndian.PutUint16(sector[48:], origin.Index)
	binary.LittleEndian.PutUint16(sector[50:], origin.Sectors)
	binary.LittleEndian.PutUint32(sector[52:], 0)
	// A drive that compresses or deduplicates must not find anything to save.
	state := origin.Sequence<<20 ^ place.Offset ^ uint64(origin.Generation)<<44
	for at := fieldBytes; at+8 <= bodyBytes; at += 8 {
		state += 0x9e3779b97f4a7c15
		binary.LittleEndian.PutUint64(sector[at:], mix(state))
	}
	binary.LittleEndian.PutUint32(sector[bodyBytes-4:], 0)
	binary.LittleEndian.PutUint32(sector[bodyBytes:], Checksum(sector[:bodyBytes]))
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// State is what a sector that was read back turns out to be.
type State string

const (
	Written   State = "record"    // whole, of this campaign, where it belongs
	Misplaced State = "misplaced" // whole, of this campaign, but of another place
	Damaged   State = "damaged"   // begins as one of this campaign, and its checksum is wrong
	Zero      State = "zero"
	Foreign   State = "foreign" // anything else
)

// Read identifies a sector found at a position; the origin is known of Written and Misplaced ones.
func Read(sector []byte, campaign Campaign, place Place) (State, Origin) {
	if string(sector[:8]) != magic || Campaign(sector[8:24]) != campaign {
		for _, b := range sector {
			if b != 0 {
				return Foreign, Origin{}
			}
		}
		return Zero, Origin{}
	}
	if binary.LittleEndian.Uint32(sector[bodyBytes:]) != Checksum(sector[:bodyBytes]) {
		return Damaged, Origin{}
	}
	origin := Origin{
		Generation: binary.LittleEndian.Uint32(sector[28:]),
		Sequence:   binary.LittleEndian.Uint64(sector[32:]),
		Index:      binary.LittleEndian.Uint16(sector[48:]),
		Sectors:    binary.LittleEndian.Uint16(sector[50:]),
	}
	if binary.LittleEndian.Uint32(sector[24:]) != Checksum([]byte(place.Target)) ||
		binary.LittleEndian.Uint64(sector[40:]) != place.Offset {
		return Misplaced, origin
	}
	return Written, origin
}
