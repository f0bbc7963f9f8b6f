// Command licences says which licences Go modules have, by the text of the licence files in their top folders, as
// pkg.go.dev does. It reads what `go mod download -json` prints, and writes a JSON object: module to SPDX identifiers.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/google/licensecheck"
)

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-_.].*)?$`)

func main() {
	found := map[string][]string{}
	downloads := json.NewDecoder(os.Stdin)
	for {
		var module struct{ Path, Dir, Error string }
		err := downloads.Decode(&module)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if module.Error != "" {
			log.Fatal(module.Error)
		}
		found[module.Path] = licences(module.Dir)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

func licences(folder string) []string {
	files, err := os.ReadDir(folder)
	if err != nil {
		log.Fatal(err)
	}
	found := []string{}
	for _, file := range files {
		if file.IsDir() || !licenceFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			log.Fatal(err)
		}
		for _, match := range licensecheck.Scan(text).Match {
			if !match.IsURL {
				found = append(found, match.ID)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
