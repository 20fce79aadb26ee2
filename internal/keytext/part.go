package keytext

// Part is a part of the key of a client, as a table of top talkers or of bans names it.
type Part struct {
	Bytes []byte
	Cut   bool   // Bytes are those that it begins with
	Print []byte // of one that was cut: its fingerprint, or nil if that is not known
}
