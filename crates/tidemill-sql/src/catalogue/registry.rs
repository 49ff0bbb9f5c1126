//! The functions that expressions may call: DataFusion's scalar functions, and those on lists.

use arrow_schema::{DataType, FieldRef, TimeUnit};
use datafusion_common::{
    Result, TableReference, config::ConfigOptions, datatype::DataTypeExt, plan_err,
};
use datafusion_expr::{
    AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
    planner::{ContextProvider, ExprPlanner, TypePlanner},
};
use datafusion_sql::sqlparser::ast;
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// Functions by name.
pub(crate) struct Functions {
    scalar: BTreeMap<String, Arc<ScalarUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
}

/// The one set of functions.
pub(crate) fn shared() -> &'static Functions {
    static FUNCTIONS: LazyLock<Functions> = LazyLock::new(Functions::new);
    &FUNCTIONS
}

/// Type names that differ from DataFusion's: a `timestamp` and a `time` have microseconds, like the times of
/// records and as in PostgreSQL; nanoseconds cover few years. A `timestamp with time zone` is in UTC.
#[derive(Debug)]
struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql: &ast::DataType) -> Result<Option<FieldRef>> {
        use ast::TimezoneInfo::{None as Unsaid, Tz, WithTimeZone, WithoutTimeZone};
        let micros =
            |zone| DataType::Timestamp(TimeUnit::Microsecond, zone).into_nullable_field_ref();
        Ok(match sql {
            ast::DataType::Timestamp(None, Unsaid | WithoutTimeZone) => Some(micros(None)),
            ast::DataType::Timestamp(None, Tz | WithTimeZone) => Some(micros(Some("UTC".into()))),
            ast::DataType::Time(None, Unsaid | WithoutTimeZone) => {
                Some(DataType::Time64(TimeUnit::Microsecond).into_nullable_field_ref())
            }
            _ => None,
        })
    }
}

impl Functions {
    fn new() -> Self {
        let mut scalar = BTreeMap::new();
        let plain = datafusion_functions::all_default_functions().into_iter();
        let on_lists = datafusion_functions_nested::all_default_nested_functions().into_iter();
        let all = plain.map(|it| (it, false)).chain(on_lists.map(|it| (it, true)));
        for (function, is_on_lists) in all {
            let Some(row) = super::function(function.name()) else { continue };
            let function = super::wrapper::wrapped(function, row, is_on_lists);
            for name in function.aliases() {
                scalar.insert(name.clone(), Arc::clone(&function));
            }
            scalar.insert(function.name().to_owned(), function);
        }
        let planners: Vec<Arc<dyn ExprPlanner>> = vec![
            Arc::new(datafusion_functions::core::planner::CoreFunctionPlanner::default()),
            Arc::new(datafusion_functions_nested::planner::NestedFunctionPlanner),
            Arc::new(datafusion_functions_nested::planner::FieldAccessPlanner),
            Arc::new(datafusion_functions::datetime::planner::DatetimeFunctionPlanner),
            Arc::new(datafusion_functions::unicode::planner::UnicodeFunctionPlanner),
        ];
        Self { scalar, planners, options: ConfigOptions::default() }
    }

    /// All names that can be called.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.scalar.keys().map(String::as_str)
    }

    /// Returns true if a function has this name; the case of letters does not matter.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.scalar.contains_key(&name.to_lowercase())
    }
}

impl ContextProvider for Functions {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("an expression cannot read the table `{name}`")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(Types))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(&name.to_lowercase()).cloned()
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
