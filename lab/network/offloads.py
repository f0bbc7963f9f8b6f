"""Switches a network device's segmentation offloads, as `ethtool -K DEVICE tso on gso on gro on` does.

    python3 -m lab.network.offloads on|off DEVICE...

Run in the device's network namespace. The commands are from linux/ethtool.h; not every host has ethtool(8).
"""

import array
import fcntl
import socket
import struct
import sys

SIOCETHTOOL = 0x8946
# Name: the commands that get and set it.
OFFLOADS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}


def switch(device: str, *, on: bool) -> None:
    """Switch all of them; raises `OSError` if one fails."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, (get, put) in OFFLOADS.items():
            _ethtool(control, device, put, int(on))
            if _ethtool(control, device, get, 0) != int(on):
                raise OSError(f"{device}: {name} can't be switched {'on' if on else 'off'}")


def _ethtool(control: socket.socket, device: str, command: int, value: int) -> int:
    """Run a command with a struct ethtool_value, and return its value afterwards."""
    data = array.array("I", [command, value])
    address, _ = data.buffer_info()
    fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP16x", device.encode(), address))
    return data[1]


if __name__ == "__main__":
    for name in sys.argv[2:]:
        switch(name, on=sys.argv[1] == "on")
