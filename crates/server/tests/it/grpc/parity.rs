//! Test of the method table.

use std::collections::BTreeSet;

use parlor_server::grpc::{METHOD_OPERATIONS, PARLOR_SERVICES};

#[test]
fn every_method_belongs_to_a_service_that_is_served() {
    let named: BTreeSet<_> = METHOD_OPERATIONS
        .iter()
        .map(|(method, _)| method.split_once('/').unwrap().0)
        .collect();
    assert_eq!(named, PARLOR_SERVICES.iter().copied().collect());
}
