package descriptor

import "strings"

// Config is a file or, from a control plane, a resource: a domain and its descriptors.
type Config struct {
	Name        string // of the file or resource, for errors
	Domain      string
	Descriptors []Descriptor
	Place
}

// Place is where something is in a file, from 1; 0 if it was not in one.
type Place struct{ Line, Column int }

// Descriptor is a node of the tree, as it is configured.
type Descriptor struct {
	Key, Value  string // Value may be empty
	Limit       *Policy
	Descriptors []Descriptor

	Shadow         bool           // count, but never deny
	Quota          bool           // deny only if all limits of this kind are exceeded
	DetailedMetric bool           // metrics by the values of the request
	ValueToMetric  bool           // metrics by the value of the request at this step
	ShareThreshold bool           // all values that a wildcard matches share one counter
	Metadata       map[string]any // for the answer; see [Limit]
	Place
}

// Policy is a limit, as it is configured.
type Policy struct {
	Requests  uint32
	Unit      Unit
	UnitText  string // as it is written, for errors
	Unlimited bool
	Name      string
	Replaces  []string // names of limits that do not apply where this one does
	Place
}

// step returns the text by which a descriptor is found among its siblings.
func (d *Descriptor) step() string {
	if d.Value == "" {
		return d.Key
	}
	return d.Key + "_" + d.Value
}

// wild reports whether a step is a wildcard.
func wild(step string) bool { return strings.Contains(step, "*") }
