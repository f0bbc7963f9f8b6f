package main

import (
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/google/cadvisor/lib/container"
	"github.com/google/cadvisor/lib/manager"
	"github.com/google/cadvisor/lib/model"
	"github.com/opencontainers/cgroups"
)

const unifiedHierarchy = "/sys/fs/cgroup/unified" // systemd's place for it beside version 1's

// withPressure has the cgroups' pressure (the time in which some or all of a cgroup's threads waited for CPU, memory or
// I/O) told wherever the kernel counts it. The library looks for it in version 2 alone, and elsewhere says 0.
func withPressure(containers manager.Manager) manager.Manager {
	if cgroups.IsCgroup2UnifiedMode() {
		return containers
	}
	if _, err := os.Stat(unifiedHierarchy + "/cpu.pressure"); err != nil {
		delete(enabledMetrics, container.PressureMetrics) // it isn't known, which is not 0
		return containers
	}
	return hybrid{containers}
}

// hybrid is the manager of a machine whose controllers are version 1's, and which has the hierarchy of version 2 beside
// them, without controllers but with pressure.
type hybrid struct{ manager.Manager }

func (h hybrid) GetRequestedContainersInfo(name string, options model.RequestOptions) (map[string]*model.ContainerInfo, error) {
	containers, err := h.Manager.GetRequestedContainersInfo(name, options)
	for _, found := range containers {
		folder := path.Join(unifiedHierarchy, found.Name)
		for i := range found.Stats {
			stats := *found.Stats[i] // a copy: the original is the library's
			stats.Cpu.PSI = pressure(path.Join(folder, "cpu.pressure"))
			stats.Memory.PSI = pressure(path.Join(folder, "memory.pressure"))
			stats.DiskIo.PSI = pressure(path.Join(folder, "io.pressure"))
			found.Stats[i] = &stats
		}
	}
	return containers, err
}

// pressure reads a file such as cpu.pressure, of two lines "some avg10=0.00 avg60=0.00 avg300=0.00 total=4918379158",
// in microseconds. A cgroup that isn't in the hierarchy has waited for nothing, as far as anybody knows.
//
// Source: Documentation/accounting/psi.rst of Linux.
func pressure(file string) (stats model.PSIStats) {
	content, _ := os.ReadFile(file)
	for line := range strings.Lines(string(content)) {
		of, _, _ := strings.Cut(line, " ")
		_, text, _ := strings.Cut(strings.TrimSpace(line), "total=")
		total, _ := strconv.ParseUint(text, 10, 64)
		switch of {
		case "some":
			stats.Some.Total = total
		case "full":
			stats.Full.Total = total
		}
	}
	return stats
}
