//! Settings as clients are shown them.

use super::*;

#[test]
fn an_advertised_ipv6_address_keeps_its_brackets() {
    for (host, expected) in [
        ("::1", "PLAINTEXT://[::1]:9092"),
        ("2001:db8::7", "PLAINTEXT://[2001:db8::7]:9092"),
        ("192.0.2.1", "PLAINTEXT://192.0.2.1:9092"),
        ("broker.example.org", "PLAINTEXT://broker.example.org:9092"),
    ] {
        let advertised = Some((host.to_owned(), 9092));
        let settings = BrokerSettings { advertised, ..BrokerSettings::default() };
        let shown = all(&settings, &Defaults::built_in());
        let shown = shown.iter().find(|it| it.name == "advertised.listeners").map(|it| &it.value);
        assert_eq!(shown.map(String::as_str), Some(expected));
    }
}
