"""Which machines reach an address that a server listens on."""

from ipaddress import ip_address


def is_ip_address(name: str) -> bool:
    """Return whether a name is an IP address rather than the name of a host."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address to listen on."""
    return host == "localhost" or (is_ip_address(host) and ip_address(host).is_loopback)


def is_wildcard(host: str) -> bool:
    """Return whether an address to listen on is 0.0.0.0 or ::, all of the machine's."""
    return is_ip_address(host) and ip_address(host).is_unspecified


def address_to_ask(host: str) -> str:
    """The address of a URL for a server that listens on a host, from the same machine.

    A wildcard is not an address that every client can connect to: browsers and other systems
    refuse 0.0.0.0.
    """
    if is_wildcard(host):
        return "[::1]" if ":" in host else "127.0.0.1"
    return f"[{host}]" if ":" in host else host
