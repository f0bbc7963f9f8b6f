// Command standalone-python unpacks a CPython into a folder: the build of python-build-standalone that the module
// go-embed-python brings along, which runs with glibc 2.17 or newer.
//
// It stands in for that project's own release where it can't be reached.
package main

import (
	"log"
	"os"

	"github.com/kluctl/go-embed-python/python"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: standalone-python FOLDER")
	}
	if _, err := python.NewEmbeddedPythonWithTmpDir(os.Args[1], false); err != nil {
		log.Fatal(err)
	}
}
