//! Where a URL may lead.

use reqwest::Url;
use sqlstreams::delivery::handler::http::addresses::AddressRules;

const STRICT: AddressRules = AddressRules { allow_private: false };
const PRIVATE: AddressRules = AddressRules { allow_private: true };

#[test]
fn only_public_addresses_are_allowed() {
    for address in [
        "1.1.1.1",
        "93.184.215.14",
        "172.15.0.1",
        "172.32.0.1",
        "100.63.0.1",
        "2606:4700::1111",
        "64:ff9b::101:101",
    ] {
        assert!(STRICT.allows(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn private_addresses_are_allowed_where_asked_for() {
    for address in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "fd12::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
    ] {
        let address = address.parse().unwrap();
        assert!(!STRICT.allows(address), "{address}");
        assert!(PRIVATE.allows(address), "{address}");
    }
}

#[test]
fn the_machine_itself_and_the_cloud_around_it_are_never_allowed() {
    let addresses = [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "fec0::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:0:0:0:0:8000:fffe",
    ];
    for address in addresses {
        let address = address.parse().unwrap();
        assert!(!STRICT.allows(address), "{address}");
        assert!(!PRIVATE.allows(address), "{address}");
    }
}

#[test]
fn an_address_is_recognised_however_it_is_written() {
    let urls = [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://[::1]:8080/",
        "http://[::ffff:7f00:1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://１２７.0.0.1/",
    ];
    for url in urls {
        assert!(STRICT.check_url(&Url::parse(url).unwrap()).is_err(), "{url}");
    }
    assert!(
        STRICT
            .check_url(&Url::parse("https://example.com/hook").unwrap())
            .is_ok(),
        "names are judged when connecting"
    );
}
