// Command mixin renders the monitoring mixin into a folder: Jsonnet with functions that understand PromQL, which add a
// label to every rule and query (std.native). See docs/mixin.md, clusterLabel.
//
//	mixin [-config FILE] RENDER.jsonnet FOLDER
//
// It prints the files written. The rest of Jsonnet is as in the program jsonnet, which renders the same files without
// such a label.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-jsonnet"
	"github.com/google/go-jsonnet/ast"
)

func main() {
	config := flag.String("config", "", "Jsonnet file with the settings to change")
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := render(*config, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(config, source, folder string) error {
	vm := jsonnet.MakeVM()
	vm.StringOutput = true
	vm.NativeFunction(native("rulesWithLabel", rulesWithLabel))
	vm.NativeFunction(native("dashboardWithLabel", dashboardWithLabel))
	if config != "" {
		vm.TLACode("config", fmt.Sprintf("import @'%s'", strings.ReplaceAll(config, "'", "''")))
	}
	files, err := vm.EvaluateFileMulti(source)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(files[name]), 0o666); err != nil {
			return err
		}
		fmt.Println(file)
	}
	return nil
}

// native is a function of Jsonnet: of rules or a dashboard, and the name of a label.
func native(name string, function func(of any, label string) (any, error)) *jsonnet.NativeFunction {
	return &jsonnet.NativeFunction{
		Name:   name,
		Params: ast.Identifiers{"of", "label"},
		Func: func(arguments []any) (any, error) {
			label, ok := arguments[1].(string)
			if !ok {
				return nil, fmt.Errorf("%s: the label's name must be a string", name)
			}
			return function(arguments[0], label)
		},
	}
}
