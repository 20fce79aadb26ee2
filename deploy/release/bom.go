package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bom writes which modules are in the binary, as the binary itself says.
func (b *build) bom(arch string) error {
	binary, err := os.ReadFile(b.binary(arch))
	if err != nil {
		return err
	}
	info := b.info[arch]
	program := component(&info.Main)
	program.Type = cdx.ComponentTypeApplication
	program.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}
	program.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(binary))}}
	parts := []cdx.Component{component(&debug.Module{Path: "std", Version: info.GoVersion})}
	for _, m := range info.Deps {
		parts = append(parts, component(m))
	}
	refs := make([]string, 0, len(parts))
	for i := range parts {
		refs = append(refs, parts[i].BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &program}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	out, err := os.Create(b.binary(arch) + ".cdx.json")
	if err != nil {
		return err
	}
	defer out.Close()
	if err := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return out.Close()
}

func component(m *debug.Module) cdx.Component {
	url := "pkg:golang/" + strings.ToLower(m.Path) + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
	if m.Sum != "" { // of the module's files, as in go.sum; none of CycloneDX's algorithms
		c.Properties = &[]cdx.Property{{Name: "golang:sum", Value: m.Sum}}
	}
	return c
}
