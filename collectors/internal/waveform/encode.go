// SPDX-License-Identifier: GPL-3.0-or-later

package waveform

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/bytestreamsplit"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// encoder turns groups into the bytes of row groups. A page is made straight from the samples: the
// library's row writers take a value at a time, at several times the price.
type encoder struct {
	meta    Meta
	body    []byte
	columns []format.ColumnChunk
	index   []int64
	plain   []byte
	packed  []byte
	zstd    zstd.Codec
	split   bytestreamsplit.Encoding
	delta   delta.BinaryPackedEncoding
}

func newEncoder(meta Meta) *encoder {
	return &encoder{meta: meta, zstd: zstd.Codec{Level: zstd.SpeedFastest, Concurrency: 1}}
}

// schema is the table's, its root first.
func schema() []format.SchemaElement {
	column := func(name string, kind format.Type) format.SchemaElement {
		return format.SchemaElement{Name: name, Type: thrift.New(kind), RepetitionType: thrift.New(format.Required)}
	}
	text := func(name string) format.SchemaElement {
		e := column(name, format.ByteArray)
		e.ConvertedType = thrift.New(deprecated.UTF8)
		e.LogicalType = format.LogicalType{Value: &format.StringType{}}
		return e
	}
	columns := []format.SchemaElement{
		text("host"), text("drive"), text("rail"), column("stream", format.Int32), column("index", format.Int64),
		column("volts", format.Float), column("amps", format.Float),
	}
	root := format.SchemaElement{Name: "waveform", NumChildren: thrift.New(int32(len(columns)))}
	return append([]format.SchemaElement{root}, columns...)
}

// group encodes a row group. Its bytes are valid until the next call; offsets count from their
// beginning.
func (e *encoder) group(g *group) (body []byte, entry format.RowGroup, err error) {
	e.body, e.columns = e.body[:0], nil
	rail := e.meta.Rails[g.rail]
	rows := len(g.volts)
	stream := binary.LittleEndian.AppendUint32(nil, uint32(g.stream))
	e.constant("host", format.ByteArray, []byte(rail.Host), rows)
	e.constant("drive", format.ByteArray, []byte(rail.Drive), rows)
	e.constant("rail", format.ByteArray, []byte(rail.Rail), rows)
	e.constant("stream", format.Int32, stream, rows)

	e.index = e.index[:0]
	for _, run := range g.runs {
		for k := range run.n {
			e.index = append(e.index, int64(run.first)+int64(k))
		}
	}
	if e.plain, err = e.delta.EncodeInt64(e.plain[:0], e.index); err != nil {
		return nil, entry, err
	}
	least := binary.LittleEndian.AppendUint64(nil, uint64(e.index[0]))
	most := binary.LittleEndian.AppendUint64(nil, uint64(e.index[rows-1]))
	if err = e.column("index", format.Int64, format.DeltaBinaryPacked, rows, format.Statistics{MinValue: least, MaxValue: most}); err != nil {
		return nil, entry, err
	}
	for name, samples := range e.samples(g) {
		if e.plain, err = e.split.EncodeFloat(e.plain[:0], samples); err != nil {
			return nil, entry, err
		}
		if err = e.column(name, format.Float, format.ByteStreamSplit, rows, format.Statistics{}); err != nil {
			return nil, entry, err
		}
	}
	entry = format.RowGroup{Columns: e.columns, NumRows: int64(rows), TotalCompressedSize: int64(len(e.body))}
	for i := range e.columns {
		entry.TotalByteSize += e.columns[i].MetaData.TotalUncompressedSize
	}
	return e.body, entry, nil
}

func (e *encoder) samples(g *group) func(yield func(string, []float32) bool) {
	return func(yield func(string, []float32) bool) {
		_ = yield("volts", g.volts) && yield("amps", g.amps)
	}
}

// constant adds a column whose rows all have the same value: a dictionary of one, and a run of its
// number.
func (e *encoder) constant(name string, kind format.Type, value []byte, rows int) {
	begin := len(e.body)
	entry := value
	if kind == format.ByteArray {
		entry = append(binary.LittleEndian.AppendUint32(nil, uint32(len(value))), value...)
	}
	e.page(format.PageHeader{
		Type:                 format.DictionaryPage,
		UncompressedPageSize: int32(len(entry)),
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1, Encoding: format.Plain}),
	}, entry)
	data := int64(len(e.body))
	// The width of a number in bits, the run's length times two, the number.
	run := append(binary.AppendUvarint([]byte{1}, uint64(rows)<<1), 0)
	e.page(dataPage(rows, len(run), format.RLEDictionary), run)
	size := int64(len(e.body) - begin)
	e.columns = append(e.columns, format.ColumnChunk{MetaData: format.ColumnMetaData{
		Type: kind, Encoding: []format.Encoding{format.Plain, format.RLE, format.RLEDictionary}, PathInSchema: []string{name},
		Codec: format.Uncompressed, NumValues: int64(rows), TotalUncompressedSize: size, TotalCompressedSize: size,
		DictionaryPageOffset: int64(begin), DataPageOffset: data, Statistics: format.Statistics{MinValue: value, MaxValue: value},
	}})
}

// column adds a column of one page that is in e.plain.
func (e *encoder) column(name string, kind format.Type, encoding format.Encoding, rows int, statistics format.Statistics) error {
	var err error
	if e.packed, err = e.zstd.Encode(e.packed[:0], e.plain); err != nil {
		return err
	}
	begin := len(e.body)
	header := e.page(dataPage(rows, len(e.plain), encoding), e.packed)
	e.columns = append(e.columns, format.ColumnChunk{MetaData: format.ColumnMetaData{
		Type: kind, Encoding: []format.Encoding{encoding}, PathInSchema: []string{name},
		Codec: format.Zstd, NumValues: int64(rows),
		TotalUncompressedSize: int64(header + len(e.plain)), TotalCompressedSize: int64(len(e.body) - begin),
		DataPageOffset: int64(begin), Statistics: statistics,
	}})
	return nil
}

func dataPage(rows, size int, encoding format.Encoding) format.PageHeader {
	return format.PageHeader{
		Type:                 format.DataPage,
		UncompressedPageSize: int32(size),
		DataPageHeader: thrift.New(format.DataPageHeader{
			NumValues: int32(rows), Encoding: encoding, DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE,
		}),
	}
}

// page appends a page and returns its header's length.
func (e *encoder) page(header format.PageHeader, data []byte) int {
	header.CompressedPageSize = int32(len(data))
	header.CRC = int32(crc32.ChecksumIEEE(data))
	b := compact(&header)
	e.body = append(append(e.body, b...), data...)
	return len(b)
}

func compact(v any) []byte {
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		panic(err) // plain data of ours
	}
	return b
}

// moved returns a row group's entry with offsets from the beginning of the file.
func moved(entry format.RowGroup, by int64, ordinal int) format.RowGroup {
	columns := make([]format.ColumnChunk, len(entry.Columns))
	copy(columns, entry.Columns)
	for i := range columns {
		m := &columns[i].MetaData
		m.DataPageOffset += by
		if i < constantColumns {
			m.DictionaryPageOffset += by
		}
	}
	entry.Columns, entry.FileOffset, entry.Ordinal = columns, by, int16(ordinal)
	return entry
}

// The first columns of the schema are those that constant makes.
const constantColumns = 4

// footer is the file's directory: Parquet's metadata, their length, and the magic.
func footer(groups []format.RowGroup, contents *Contents) []byte {
	m := format.FileMetaData{
		Version: 2, Schema: schema(), RowGroups: groups, CreatedBy: "joulerig",
		KeyValueMetadata: []format.KeyValue{{Key: MetadataKey, Value: string(marshal(contents))}},
	}
	for _, g := range groups {
		m.NumRows += g.NumRows
	}
	for range m.Schema[1:] {
		m.ColumnOrders = append(m.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
	}
	b := compact(&m)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(b))), magic...)
}

const magic = "PAR1"
