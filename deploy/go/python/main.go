// Command standalone-python unpacks a CPython into a folder: the build of python-build-standalone that the module
// go-embed-python brings along, which runs with glibc 2.17 or newer. It is that for the architecture of this program, or
// the one whose files are in FILES, a folder of that module.
//
// It stands in for that project's own release where it can't be reached.
package main

import (
	"log"
	"os"

	"github.com/kluctl/go-embed-python/embed_util"
	"github.com/kluctl/go-embed-python/python"
)

func main() {
	var err error
	switch len(os.Args) {
	case 2:
		_, err = python.NewEmbeddedPythonWithTmpDir(os.Args[1], false)
	case 3:
		_, err = embed_util.NewEmbeddedFilesWithTmpDir(os.DirFS(os.Args[2]), os.Args[1], false)
	default:
		log.Fatal("usage: standalone-python FOLDER [FILES]")
	}
	if err != nil {
		log.Fatal(err)
	}
}
