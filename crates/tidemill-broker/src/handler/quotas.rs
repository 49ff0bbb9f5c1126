//! How much clients may send and ask: there are no quotas.

use crate::api::Context;
use tidemill_wire::kafka::message::{
    DescribeClientQuotasRequestData, DescribeClientQuotasResponseData,
};

/// Lists none, whoever they are asked for.
pub(crate) async fn describe(
    _: &Context<'_>,
    _: DescribeClientQuotasRequestData,
) -> DescribeClientQuotasResponseData {
    DescribeClientQuotasResponseData {
        entries: Some(Vec::new()),
        ..DescribeClientQuotasResponseData::default()
    }
}
