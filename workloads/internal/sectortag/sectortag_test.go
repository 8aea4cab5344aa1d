// SPDX-License-Identifier: GPL-3.0-or-later

package sectortag

import (
	"math/rand/v2"
	"testing"
)

var campaign = Campaign{1, 2, 3}

func filled(sectors int, place Place) []byte {
	data := make([]byte, sectors*SectorBytes)
	Fill(data, campaign, 7, 41, place)
	return data
}

func TestEverySectorHasItsOrigin(t *testing.T) {
	place := Place{"append", 8192}
	data := filled(5, place)
	for i := range 5 {
		at := Place{"append", 8192 + uint64(i*SectorBytes)}
		state, origin := Read(data[i*SectorBytes:(i+1)*SectorBytes], campaign, at)
		if want := (Origin{7, 41, uint16(i), 5}); state != Written || origin != want {
			t.Errorf("sector %d: %s %+v, want %+v", i, state, origin, want)
		}
	}
}

func TestAnyFlippedBitShows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		data := filled(1, Place{"", 0})
		bit := random.IntN(SectorBytes * 8)
		data[bit/8] ^= 1 << (bit % 8)
		if state, _ := Read(data, campaign, Place{"", 0}); state != Damaged && state != Foreign {
			t.Fatalf("bit %d flipped: %s", bit, state)
		}
	}
}

func TestASectorOfAnotherPlaceIsMisplaced(t *testing.T) {
	data := filled(1, Place{"one", 512})
	for _, place := range []Place{{"one", 1024}, {"other", 512}} {
		if state, origin := Read(data, campaign, place); state != Misplaced || origin.Sequence != 41 {
			t.Errorf("at %+v: %s %+v", place, state, origin)
		}
	}
}

func TestWhatTheCampaignDidNotWriteIsNotItsOwn(t *testing.T) {
	empty := make([]byte, SectorBytes)
	if state, _ := Read(empty, campaign, Place{}); state != Zero {
		t.Errorf("an empty sector is %s", state)
	}
	empty[300] = 1
	if state, _ := Read(empty, campaign, Place{}); state != Foreign {
		t.Errorf("a stranger's sector is %s", state)
	}
	if state, _ := Read(filled(1, Place{}), Campaign{9}, Place{}); state != Foreign {
		t.Errorf("another campaign's sector is %s", state)
	}
}

func TestTwoSectorsNeverLookAlike(t *testing.T) {
	seen := map[[SectorBytes - fieldBytes]byte]int{}
	data := filled(200, Place{"", 0})
	for i := range 200 {
		payload := [SectorBytes - fieldBytes]byte(data[i*SectorBytes+fieldBytes : (i+1)*SectorBytes])
		if other, there := seen[payload]; there {
			t.Fatalf("sectors %d and %d have the same payload", other, i)
		}
		seen[payload] = i
	}
}
